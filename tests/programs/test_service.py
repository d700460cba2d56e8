#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_service.py FATHOM DEPLOY: the services as far as they can be tried without systemd as the first process: a server
tells the manager when it can be asked and when it ends; systemd reads the units without a complaint, and finds little that
a service could do to the machine; Prometheus' checker reads the alerts; the example files hold for the program."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from server import PATIENCE, Process, Server, fathom, open_url

deploy = sys.argv[2]
EXPOSURE_MOST = 2.0  # of 10, as `systemd-analyze security` counts


def run(*command, code=0):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == code, (command, done)
    return done.stdout + done.stderr


def the_manager_is_told(folder):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.settimeout(PATIENCE)
    manager.bind(folder + "/notify")
    server = Process("serve", "--port", "0", "--kv-memory", "64MiB",
                     more_environment={"NOTIFY_SOCKET": folder + "/notify"})
    server.wait_for_url()
    assert manager.recv(64) == b"READY=1"
    with open_url(server.at("/health")) as answer:
        assert answer.status == 200
    server.process.send_signal(signal.SIGTERM)
    assert manager.recv(64) == b"STOPPING=1"
    assert server.process.wait(PATIENCE) == 0, server.said()


def systemd_reads_the_units(folder):
    """As they are, but for where the program lies."""
    if not shutil.which("systemd-analyze"):
        print("systemd-analyze is not there: nobody has read the units")
        return
    units = []
    for name in sorted(os.listdir(deploy)):
        if not name.endswith(".service"):
            continue
        with open(os.path.join(deploy, name)) as file:
            text = file.read()
        units.append(os.path.join(folder, name.replace("@", "@one")))
        with open(units[-1], "w") as file:
            file.write(text.replace("/usr/bin/fathom", os.path.abspath(fathom)))
    assert len(units) == 4, units
    said = run("systemd-analyze", "verify", "--man=no", *units)
    assert not any(unit.rsplit("/", 1)[1] in said for unit in units), said
    for unit in units:
        found = re.search(r"Overall exposure level .*: ([\d.]+)",
                          run("systemd-analyze", "security", "--offline=true", "--no-pager", unit))
        assert found and float(found.group(1)) <= EXPOSURE_MOST, (unit, found)


def prometheus_reads_the_alerts(text):
    promtool = shutil.which("promtool") or shutil.which("promtool", path=os.path.join(deploy, "../.deps"))
    with open(deploy + "/alerts.yaml") as file:
        alerts = file.read()
    families = set(re.findall(r"\bfathom_\w+", alerts))
    assert len(families) >= 5, families
    missing = [name for name in families if "# TYPE %s " % re.sub("_bucket$", "", name) not in text]
    assert not missing, "the alerts ask for what /metrics has not: %s" % missing
    if not promtool:
        print("promtool is not there: nobody has read the alerts")
        return
    assert "7 rules found" in run(promtool, "check", "rules", deploy + "/alerts.yaml")


def the_examples_hold(folder):
    """Each with what is a remark in it, too; a unit gets as far as to its key."""
    for name in ("serve", "gateway", "unit"):
        with open(os.path.join(deploy, name + ".yaml")) as file:
            text = re.sub(r"^# (?=[\w-]+: )", "", file.read(), flags=re.MULTILINE)
        text = text.replace("/srv/models/DeepSeek-V3", folder + "/no-model")
        with open(folder + "/example.yaml", "w") as file:
            file.write(re.sub("^port: .*", "port: 0", text, flags=re.MULTILINE))
        done = subprocess.run([fathom, name, "--config", folder + "/example.yaml"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1 and re.search("no-model|wire-key|keys", done.stderr), (name, done)


def the_fleets_example_holds(folder):
    """As far as to the day that it has not lived yet."""
    with open(deploy + "/fleet.yaml") as file:
        text = file.read().replace("/var/lib/fathom/night", folder + "/night")
    with open(folder + "/fleet.yaml", "w") as file:
        file.write(text)
    assert "0 of 288 parts are known" in run(fathom, "fleet", "plan", folder + "/fleet.yaml", code=1)


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = Server("--kv-dir", folder + "/kv")
        text = server.metrics_text()
        server.stop()
        prometheus_reads_the_alerts(text)
        the_manager_is_told(folder)
        systemd_reads_the_units(folder)
        the_examples_hold(folder)
        the_fleets_example_holds(folder)
    print("ok")


main()
