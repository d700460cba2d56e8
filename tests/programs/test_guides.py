#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_guides.py FATHOM ROOT GUIDE: docs/GUIDE.md, of the users' guides, is followed word by word, as by somebody who knows
nothing else: its shell commands run as they stand, in a network of their own, and what the guide shows has to come out. A
server ends when the next one starts, as they share a port. Stand-ins, as there is no network, and no other machine:

  hf, git, modelscope  copy the embedded model, or V3's config.json, for what they would download
  ./dev                starts the program that is built; test_dev.py and `./dev package` run the real one
  apt-get, systemctl   `./dev package` runs these lines of operations.md; here the service's file of options is served
  podman, docker       the program of the image, here; for Open WebUI, the requests that it sends
  ssh, scp             lines of cluster.md, which test_cluster_guide.py follows

nginx and Caddy are themselves, where they are installed. Tables are compared with what Fathom prints: the models' sizes, the
options that replace others'. Without a network namespace (root, or user namespaces) nothing is run."""
import errno
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time

import sparse_model
from reader import BLOCK, Reader
from server import PATIENCE, environment, fathom

root, guide = sys.argv[2:4]
SERVES = re.compile(r"(fathom|dev) serve\b|^podman run |^systemctl ")
ELSEWHERE = {"apt-get": "operations", "systemctl": "operations", "ssh": "cluster", "scp": "cluster"}

V3 = {**sparse_model.V3, "num_nextn_predict_layers": 1}
V2_LITE = {"architectures": ["DeepseekV2ForCausalLM"], "vocab_size": 102400, "hidden_size": 2048, "num_hidden_layers": 27,
           "num_attention_heads": 16, "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
           "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 10944, "moe_intermediate_size": 1408,
           "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
           "topk_method": "greedy", "max_position_embeddings": 163840}
V2 = {**V2_LITE, "hidden_size": 5120, "num_hidden_layers": 60, "num_attention_heads": 128, "q_lora_rank": 1536,
      "intermediate_size": 12288, "moe_intermediate_size": 1536, "n_routed_experts": 160,
      "topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 3}
CONFIGS = {"DeepSeek-V2-Lite(": V2_LITE, "DeepSeek-V2(": V2, "DeepSeek-V3,": V3}  # as their rows begin

STANDINS = {
    "hf": """[ "$1" = download ] || exit 2
name=${2#*/}; shift 2
[ "$1" = --local-dir ] || { file=$1; shift; }
[ "$1 $#" = "--local-dir 2" ] && mkdir -p "$2" && cp -r "$HUB/$name/${file:-.}" "$2"
""",
    "modelscope": """[ "$1 $2 $4 $#" = "download --model --local_dir 5" ] && mkdir -p "$5" && cp -r "$HUB/${3#*/}/." "$5"
""",
    "git": """[ "$*" = "lfs install" ] && exit
[ "$1 $# ${2%/*/*}" = "clone 2 https://huggingface.co" ] && rm -rf "${2##*/}" && cp -r "$HUB/${2##*/}" .
""",
    "dev": """case $1 in
serve) shift; exec build/fathom serve "$@" ;;
deb) [ $# = 1 ] && echo build/package/fathom_1_amd64.deb ;;
*) exit 2 ;;
esac
""",
    "apt-get": """exit
""",
    "systemctl": """exec fathom serve --config "$HOME/etc/fathom/serve.yaml"
""",
    "runuser": """[ "$1 $2 $3" = "-u fathom --" ] && shift 3 && exec "$@"
""",
    # A folder that is mounted is the folder; without a command the image has that of the Containerfile.
    "podman": """[ "$*" = "build -t fathom ." ] && exec test -f Containerfile
[ "$1" = run ] || exit 2
shift
while [ "$1" != fathom ]; do
    case $1 in
    -v) from=${2%%:*}; to=${2#*:}; to=${to%:ro}; shift 2 ;;
    -p) shift 2 ;;
    --rm) shift ;;
    *) exit 2 ;;
    esac
done
shift
[ $# -gt 0 ] || set -- $(sed -n 's/^CMD \\[\\(.*\\)\\]/\\1/p' Containerfile | tr -d '",')
exec fathom $(echo "$@" | sed "s#${to:-.^}#${from:-}#")
""",
    "docker": """[ "$1 $2 $3" = "run -d --network=host" ] || exit 2
for word; do
    case $word in
    OPENAI_API_BASE_URL=*) url=${word#*=} ;;
    OPENAI_API_KEY=*) key=${word#*=} ;;
    esac
done
curl -sSf "$url/models" -H "Authorization: Bearer $key" | grep -q '"id":"tiny-r1"' || exit 1
curl -sSf "$url/chat/completions" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' -d '{
  "model": "tiny-r1", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}' | grep -q 'data: \\[DONE\\]'
""",
}


def commands(block):
    """A block's commands, those of several lines together."""
    command = ""
    for line in block.splitlines():
        command += ("\n" if command else "") + line
        if command.count("'") % 2 == 0 and ("<<END" not in command or line == "END"):
            yield command
            command = ""
    assert not command, command


class GuideReader(Reader):
    def __init__(self, folder):
        place, hub, self.key = folder + "/fathom", folder + "/hub", None
        super().__init__(folder, place, dict(environment, HOME=folder, HUB=hub, PATH=folder + "/bin:" + os.environ["PATH"]))
        for path in (place, hub, folder + "/bin", folder + "/etc/fathom", folder + "/srv/models", folder + "/var/lib/fathom"):
            os.makedirs(path)
        for name in ("models", "Containerfile"):
            os.symlink(os.path.join(root, name), place + "/" + name)
        os.mkdir(place + "/build")
        os.symlink(os.path.abspath(fathom), place + "/build/fathom")
        os.symlink(os.path.abspath(fathom), folder + "/bin/fathom")
        shutil.copytree(root + "/models/tiny-r1", hub + "/DeepSeek-V2-Lite-Chat")
        os.symlink(hub + "/DeepSeek-V2-Lite-Chat", folder + "/srv/models/DeepSeek-V2-Lite-Chat")
        os.mkdir(hub + "/DeepSeek-V3")
        with open(hub + "/DeepSeek-V3/config.json", "w", encoding="utf-8") as file:
            json.dump(V3, file)
        shutil.copy(root + "/deploy/serve.yaml", folder + "/etc/fathom")
        for name, text in STANDINS.items():
            path = (place if name == "dev" else folder + "/bin") + "/" + name
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\nset -e\n" + text)
            os.chmod(path, 0o755)

    def words(self, text):
        """/etc and other folders of the machine are below the reader's own."""
        return re.sub(r"(?<![\w.])/(?=(etc|srv|var/lib)/)", self.folder + "/", text)

    def read(self, section):
        """Follows a section; returns the number of its commands."""
        began, followed = time.monotonic(), 0
        for _, language, block in BLOCK.findall(section):
            if language == "sh":
                for command in commands(block):
                    self.follow(command)
                    followed += 1
            elif language in ("nginx", "caddy"):
                if shutil.which(language):
                    getattr(self, language)(block)
                else:
                    print("%s is not installed: its configuration was not tried" % language)
            else:
                for line in block.splitlines():
                    self.expect(line)
        self.end()
        print("%s: %d commands, %.1f s" % (section.split("\n")[0], followed, time.monotonic() - began), flush=True)
        return followed

    def follow(self, command):
        elsewhere = "cluster" if "--hosts" in command else ELSEWHERE.get(command.split()[0])
        if elsewhere:
            lines = [line.strip() for line in read(elsewhere).splitlines()]
            assert command in lines, "%s: no line of docs/%s.md, which is tested" % (command, elsewhere)
        if elsewhere == "cluster":
            return
        if SERVES.search(command):
            self.end()
            self.start("sh", "-ec", "exec " + self.words(command))
            self.expect("listening on")
        else:
            self.run("bash", "-euo", "pipefail", "-c", self.words(command))
            self.key = next(iter(re.findall(r"^sk-\w+$", self.answer, re.M)), self.key)

    def ask(self, connection):
        """A streamed chat through a proxy, as from a page of its site."""
        until = time.monotonic() + PATIENCE
        while not connection.sock:
            try:
                connection.connect()
            except ConnectionRefusedError:
                assert time.monotonic() < until and self.started[-1].poll() is None, self.said()
                time.sleep(0.02)
        connection.request("POST", "/v1/chat/completions", json.dumps({
            "stream": True, "temperature": 0, "messages": [{"role": "user", "content": "Hello"}]}),
            {"Host": "llm.example.com", "Origin": "https://llm.example.com", "Content-Type": "application/json",
             "Authorization": "Bearer " + self.key})
        answer = connection.getresponse()
        said = answer.read().decode()
        assert answer.status == 200 and "data: [DONE]" in said, (answer.status, said, self.said())
        connection.close()

    def nginx(self, text):
        certificate = self.folder + "/etc/letsencrypt/live/llm.example.com"
        os.makedirs(certificate)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        "/CN=llm.example.com", "-keyout", certificate + "/privkey.pem", "-out", certificate + "/fullchain.pem"],
                       check=True, stderr=subprocess.DEVNULL)
        with open(self.folder + "/nginx.conf", "w", encoding="utf-8") as file:
            file.write("daemon off; user root; pid %s/nginx.pid; events {} http { access_log off; %s\n%s}\n" % (
                self.folder, " ".join("%s_temp_path %s/%s;" % (kind, self.folder, kind) for kind in (
                    "client_body", "proxy", "fastcgi", "uwsgi", "scgi")), self.words(text)))
        self.start("nginx", "-e", "stderr", "-c", self.folder + "/nginx.conf")
        self.ask(http.client.HTTPSConnection("127.0.0.1", timeout=PATIENCE, context=ssl._create_unverified_context()))

    def caddy(self, text):
        """Over HTTP: there is no authority to ask for a certificate."""
        with open(self.folder + "/Caddyfile", "w", encoding="utf-8") as file:
            file.write("http://" + text)
        self.start("caddy", "run", "--adapter", "caddyfile", "--config", file.name)
        self.ask(http.client.HTTPConnection("127.0.0.1", timeout=PATIENCE))


def read(name):
    with open("%s/docs/%s.md" % (root, name), encoding="utf-8") as file:
        return file.read()


def rows(text):
    for line in re.findall(r"^\|(.*)\|$", text, re.M):
        yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]


def numbers_are_true(text, folder):
    """docs/models.md: sizes are those of `inspect model`, speeds those of docs/performance."""
    checked = 0
    for name, *cells in rows(text.partition("## What runs")[2].partition("\n## ")[0]):
        model = root + "/models/tiny-r1" if name.startswith("`tiny-r1`") else None
        for begin, config in CONFIGS.items():
            if name.startswith(begin):
                model = "%s/config%d" % (folder, checked)
                os.mkdir(model)
                with open(model + "/config.json", "w", encoding="utf-8") as file:
                    json.dump(config, file)
        if model:
            said = subprocess.run([fathom, "inspect", "model", model], check=True, stdout=subprocess.PIPE, text=True).stdout
            parameters, size, token = cells
            assert re.search(r"^parameters +%s active" % re.escape(parameters), said, re.M), (parameters, said)
            assert re.search(r"^bytes +%s$" % re.escape(size), said, re.M), (size, said)
            assert re.search(r"^KV per token, BF16 +%s\b" % token, said, re.M), (token, said)
            checked += 1
    assert checked == 1 + len(CONFIGS), checked
    measured = read("performance") + read("performance/model") + read("performance/kernels")
    for name, machine, *cells in rows(text.partition("## Speed")[2].partition("\n## ")[0]):
        for figure in re.findall(r"[\d,.]+", " ".join(cells)) if machine.startswith("2 CPUs") else []:
            assert re.search(r"(?<![\d,.])%s(?![\d,.]*\d)" % re.escape(figure), measured), figure
            checked += 1
    assert checked > 16, checked


def options_exist(text):
    """docs/coming-from.md: what replaces others' options is an option of ours, or a command."""
    known = subprocess.run([fathom, "inspect", "options"], check=True, stdout=subprocess.PIPE, text=True).stdout
    known = set(re.findall(r"(--[a-z][a-z-]*)", known.replace("--[no-]prefix-cache", "--prefix-cache --no-prefix-cache")))
    checked = 0
    for theirs, *ours in rows(text):
        for quoted in re.findall(r"`([^`]*)`", " ".join(ours)):
            for option in re.findall(r"(?<!\S)--[a-z-]+", quoted):
                assert option in known, (theirs, option)
                checked += 1
            for command in re.findall(r"^fathom ([a-z ]+[a-z])", quoted):
                subprocess.run([fathom, "help", *command.split()[:1]], check=True, stdout=subprocess.DEVNULL)
    assert checked > 80, checked


def messages_exist(text):
    """docs/quickstart.md: what one may see is what the program, or the system, says."""
    with open(fathom, "rb") as file:
        program = file.read()
    quoted = re.findall(r"`([^`]+)`", " ".join(seen for seen, _ in rows(text.partition("## When it does not work")[2])))
    for part in [part.strip() for message in quoted for part in message.split("…")]:
        assert part.encode() in program or part in (os.strerror(errno.EADDRINUSE), os.strerror(errno.ECONNREFUSED)), part
    assert len(quoted) > 8, quoted


def main():
    if os.environ.get("FATHOM_OWN_NETWORK") != "1":
        apart = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c",
                 'ip link set lo up && exec "$@"', "sh"]
        if not shutil.which("curl") or subprocess.run([*apart, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
            print("no network namespace can be made here (that takes root or user namespaces, ip and curl)")
            sys.exit(77)
        os.execvpe(apart[0], [*apart, sys.executable, *sys.argv], {**os.environ, "FATHOM_OWN_NETWORK": "1"})
    with tempfile.TemporaryDirectory(prefix="fathom_guides_") as folder:
        reader, text = GuideReader(folder), read(guide)
        try:
            followed = sum(reader.read(section) for section in re.split(r"^(?=## )", text, flags=re.M))
        finally:
            reader.end()
        assert followed >= 4, followed
        if guide == "quickstart":
            messages_exist(text)
        if guide == "models":
            numbers_are_true(text, folder)
        if guide == "coming-from":
            options_exist(text)


if __name__ == "__main__":
    main()
