# Not for an upgrade.
if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
    systemctl disable --now headroom-route.service headroom-agent.service headroom-guard.service || true
fi
exit 0
