#!/bin/sh
# Turns a fresh Debian root directory into the image of container nodes; mmdebstrap calls it as a customize hook.
set -eu
root=$1

# Packages of the tools, as an apt repository inside the node: tests install them without any network.
chroot "$root" sh -eu <<'EOF'
mkdir -p /opt/debs
cd /opt/debs
chown _apt .
apt-get download $(dpkg-query --show --showformat '${Package}\n' | grep -E '^(fio|sysbench|xfsprogs|postgresql.*)$')
chown -R root .
for deb in *.deb; do
    dpkg-deb --field "$deb"
    echo "Filename: ./$deb"
    echo "Size: $(stat --format %s "$deb")"
    echo "SHA256: $(sha256sum "$deb" | cut -d' ' -f1)"
    echo
done > Packages
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/opt/debs ./' > /etc/apt/sources.list

# One with root by sudo, one without.
useradd --create-home --shell /bin/bash lab
useradd --create-home --shell /bin/bash plain
echo 'lab ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/lab
chmod 0440 /etc/sudoers.d/lab

# What would change the machine's own kernel, or needs hardware.
systemctl mask systemd-udevd.service systemd-modules-load.service systemd-networkd.service systemd-sysctl.service \
    systemd-binfmt.service systemd-remount-fs.service systemd-timesyncd.service getty@tty1.service console-getty.service \
    proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
    sys-fs-fuse-connections.mount dev-hugepages.mount
rm -f /etc/ssh/ssh_host_*

cat > /usr/local/sbin/node-boot <<'BOOT'
#!/bin/sh
# What a real boot brings and a container's start does not: a boot id of its own, loop devices, SSH host keys.
set -eu
cat /proc/sys/kernel/random/uuid > /run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
for n in $(seq 0 63); do
    [ -e "/dev/loop$n" ] || mknod --mode 0660 "/dev/loop$n" b 7 "$n"
done
ssh-keygen -A
BOOT
chmod 0755 /usr/local/sbin/node-boot
cat > /etc/systemd/system/node-boot.service <<'UNIT'
[Unit]
Description=What a container node needs before anybody logs in
DefaultDependencies=no
Before=sysinit.target ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/node-boot
[Install]
WantedBy=sysinit.target
UNIT
systemctl enable node-boot.service
EOF
