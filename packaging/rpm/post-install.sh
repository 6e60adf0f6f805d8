systemd-sysusers headroom.conf
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
# An upgrade: the new version takes the router's listening sockets over, and no connect is refused.
if [ "$1" -gt 1 ]; then
    systemctl kill --kill-whom=main --signal=USR2 headroom-route.service 2>/dev/null || true
    systemctl try-restart headroom-agent.service headroom-guard.service || true
fi
exit 0
