#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_conversation.py FATHOM: /save, /load and /file of `fathom chat`: a conversation continues from its file, which its
owner alone may read, and a wrong file changes nothing."""
import json
import os
import tempfile

from command import attempt

MODEL = ("--temperature", "0", "--cpu-mask", "avx512")


def chat(*lines, options=()):
    done = attempt("chat", *MODEL, *options, stdin=None, input="".join(line + "\n" for line in lines))
    assert done.returncode == 0, done
    return done


with tempfile.TemporaryDirectory() as folder:
    kept, wrong, text = (os.path.join(folder, name) for name in ("kept.json", "wrong.json", "text.txt"))
    chat("My name is Anna.", "/save " + kept, options=("--system", "Be \"brief\"."))
    assert os.stat(kept).st_mode & 0o777 == 0o600, oct(os.stat(kept).st_mode)
    with open(kept, encoding="utf-8") as file:
        messages = json.load(file)["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant"], messages
    assert messages[0]["content"] == "Be \"brief\"." and messages[1]["content"] == "My name is Anna.", messages
    assert "Anna" in messages[2]["content"] and "user" not in messages[2]["content"], "thoughts are not kept"
    assert "Anna" in chat("/load " + kept, "What is my name?").stdout
    for content, words in (("{", "wrong.json: not valid JSON: line 1"), ("[1]", "expected {"), ('{"messages": [{"role": "tool"}]}', "messages[0]")):
        with open(wrong, "w", encoding="utf-8") as file:
            file.write(content)
        done = chat("/load " + kept, "/load " + wrong, "What is my name?")
        assert words in done.stderr and "Anna" in done.stdout, done
    done = chat("/save! " + folder, "/load " + folder + "/none", "/save", "/save!")
    assert "cannot write" in done.stderr and "none" in done.stderr and done.stderr.count("needs the path") == 2, done
    done = chat("What is 1 + 1?", "/save " + kept, "/save! " + text, "/save! " + text)  # an existing file is kept
    assert done.stderr.count("kept.json exists") == 1 and "/save! replaces it" in done.stderr and "text.txt" not in done.stderr, done
    with open(kept, encoding="utf-8") as file:
        assert json.load(file)["messages"] == messages
    assert os.stat(text).st_mode & 0o777 == 0o600
    with open(text, "wb") as file:
        file.write(b"My name is Anna.\xff")
    done = chat("/file " + text, "What is my name?", "/save! " + kept)
    assert "17 bytes go with the next question" in done.stderr, done
    with open(kept, encoding="utf-8") as file:
        asked = json.load(file)["messages"][0]["content"]
    assert asked == text + ":\n```\nMy name is Anna.\ufffd\n```\n\nWhat is my name?", asked
print("ok")
