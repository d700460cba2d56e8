# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster for the tests, on this machine alone: munged, slurmctld and a slurmd for each node, from Debian's packages
munge, slurmctld, slurmd and slurm-client. Its files lie in a folder of its own, and all end with the process that started
them. `Slurm.is_there()` says whether the programs are installed and may be run.

Nodes are names on this machine's loopback; or, with hosts of hosts.py, network namespaces with an address and a name of their
own, where the controller is in the first one's.

    cluster = Slurm(["n1", "n2"])
    done = cluster.run("sbatch", "--wrap", "hostname")
    print(cluster.output(done))
"""
import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "sinfo"]
# `ip netns exec` mounts another /sys, which UCX asks for interfaces, without the control groups that slurmd asks for.
ENTER = """space=$1 groups=$2; shift 2; mount --rbind /sys/fs/cgroup "$groups" && hostname "$0" &&
exec ip netns exec "$space" sh -c 'mount --rbind "$0" /sys/fs/cgroup && exec "$@"' "$groups" "$@" """
PATIENCE = 120  # seconds; a busy machine fails no test

CONF = """ClusterName=fathom
SlurmctldHost=%(controller)s(%(controller_address)s)
SlurmctldPort=%(controller_port)d
SlurmUser=%(user)s
SlurmdUser=%(user)s
AuthInfo=socket=%(folder)s/munge
CredType=cred/munge
MpiDefault=none
StateSaveLocation=%(folder)s/state
SlurmdSpoolDir=%(folder)s/spool-%%n
SlurmctldPidFile=%(folder)s/slurmctld.pid
SlurmdPidFile=%(folder)s/slurmd-%%n.pid
SlurmctldLogFile=%(folder)s/slurmctld.log
SlurmdLogFile=%(folder)s/slurmd-%%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SchedulerParameters=sched_interval=1
%(more)s
%(nodes)s
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Slurm:
    @staticmethod
    def is_there():
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        return os.geteuid() == 0 and all(shutil.which(name, path=path) for name in PROGRAMS)

    def __init__(self, names, cpus=16, hosts=None, more=""):
        """`cpus` of each node; `hosts`: see above, has the names, too; `more`: lines of slurm.conf."""
        self.names, self.hosts, self.started = names, hosts if hosts and hosts.are_apart else None, []
        self.folder = tempfile.mkdtemp(prefix="fathom_slurm_")
        self.environment = dict(os.environ, SLURM_CONF=self.folder + "/slurm.conf",
                                PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        for name in [name for name in self.environment if name.startswith(("SLURM_", "SBATCH_")) and name != "SLURM_CONF"]:
            del self.environment[name]  # of an allocation in which the test itself may run
        atexit.register(self.stop)
        os.chmod(self.folder, 0o755)
        os.mkdir(self.folder + "/state")
        self.write_conf(cpus, more)
        self.start_munge()
        self.start(names[0], "slurmctld", "-D")
        for name in names:
            self.start_node(name)
        self.wait_for(lambda: sorted(self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()) == sorted(names), "nodes")

    def write_conf(self, cpus, more):
        here = socket.gethostname()
        nodes = "\n".join("NodeName=%s NodeHostname=%s NodeAddr=%s Port=%d CPUs=%d State=UNKNOWN" % (
            name, name if self.hosts else here, self.address(name), free_port(), cpus) for name in self.names)
        with open(self.environment["SLURM_CONF"], "w", encoding="utf-8") as file:
            file.write(CONF % {"controller": self.names[0] if self.hosts else here, "folder": self.folder, "user": "root",
                               "controller_address": self.address(self.names[0]), "controller_port": free_port(),
                               "nodes": nodes, "more": more})
        with open(self.folder + "/cgroup.conf", "w", encoding="utf-8") as file:
            file.write("IgnoreSystemd=yes\n")

    def address(self, name):
        return self.hosts.address(name) if self.hosts else "127.0.0.1"

    def start_munge(self):
        with open(self.folder + "/key", "wb") as file:
            file.write(os.urandom(128))
        os.chmod(file.name, 0o400)
        of = self.folder + "/munge"
        self.start(None, "munged", "--foreground", "--force", "--key-file", file.name, "--socket", of, "--pid-file",
                   of + ".pid", "--log-file", of + ".log", "--seed-file", of + ".seed")
        self.wait_for(lambda: os.path.exists(of), "munged")

    def start(self, node, *command):
        with open("%s/%s.out" % (self.folder, command[0] + (node or "")), "w", encoding="utf-8") as said:
            self.started.append(subprocess.Popen([*self.on(node), *command], env=self.environment, stdin=subprocess.DEVNULL,
                                                 stdout=said, stderr=said))

    def start_node(self, name):
        """Also again, after it was killed."""
        self.start(name, "slurmd", "-D", "-N", name)

    def on(self, node):
        if not self.hosts or not node:
            return []
        os.makedirs(self.folder + "/cgroup", exist_ok=True)
        return ["unshare", "-mu", "sh", "-c", ENTER, node, self.hosts.space(node), self.folder + "/cgroup"]

    def wait_for(self, is_so, what):
        end = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < end, "no %s\n%s" % (what, self.said())
            assert all(process.poll() is None for process in self.started), self.said()
            time.sleep(0.1)

    def said(self):
        """By the daemons, for whom it does not start."""
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith((".out", ".log")):
                with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                    text += "== %s\n%s" % (name, file.read())
        return text

    def run(self, *command, check=False):
        """One of Slurm's commands, on the first node: what it prints."""
        done = subprocess.run([*self.on(self.names[0]), *command], env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stderr + self.said()
        return done.stdout

    def submit(self, *arguments):
        """sbatch: the job's number."""
        return int(re.search(r"Submitted batch job (\d+)", self.run("sbatch", *arguments, check=True)).group(1))

    def state(self, job):
        """Such as PENDING, RUNNING, COMPLETED, CANCELLED; empty: it is long over."""
        found = re.search(r"JobState=(\w+)", self.run("scontrol", "show", "job", str(job)))
        return found.group(1) if found else ""

    def stop(self):
        if not os.path.isdir(self.folder):
            return
        self.run("scancel", "--user", "root")
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.started):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
