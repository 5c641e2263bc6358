"""Study x lab x facts to a plan."""
