#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""card.py FOLDER: prints the model card, from what make.sh left in its folder.

trained.pt has the training's figures; single.json, tools.json and chats.json are written by evaluate.py and
load.json by expert_load.py; the samples are answers of the exported model."""
import argparse
import json
import os

import torch

from infer import Net
from tokenizer import ASSISTANT, BOS, USER, tokenizer

SAMPLES = [
    "How many r in strawberry?", "What is 4728 + 915?", "what is an otter", "Tell me a story about a fox.",
    "Who are you?", "What is 4728 + 915? Answer as JSON.",
]
WEATHER_TOOLS = """Tools:
1 Set a timer.
set_timer {"minutes": "integer"}
2 Get the weather in a city.
get_weather {"city": "string", "unit": ["celsius", "fahrenheit"]}"""
TOOL_KINDS = {
    "call": "call a tool: the name and all arguments are right",
    "again": "the same after earlier calls or questions",
    "nofit": "no tool fits: it says so",
    "plain": "no tool is needed: it answers by itself",
    "result": "answer with a tool's result",
    "json": "answer in JSON: all values are right",
}
CHAT_KINDS = {
    "chats/page": "the six examples of the chat page in one chat, in any order",
    "chats/held_out": "six held-out questions of the same kinds in one chat",
    "chats/name": "the user's name, after three other turns",
    "chats/sums": "four sums in a row, each with the last result",
}
CARD = """\
# tiny-r1

A tiny chat model with the architecture of DeepSeek-V3 and R1 (`DeepseekV3ForCausalLM`: MLA, YaRN, experts
chosen by groups with a correction bias, one shared expert, one MTP module) in the checkpoint format of
DeepSeek-V3 (FP8 E4M3, blocks of 128x128). Trained from scratch on a CPU with 2 cores. It is not made by
DeepSeek and contains none of its weights. `models/tiny-r1/make` in the sources has all that made it.

It thinks step by step between `<think>` and `</think>` and then answers. It can
* add and subtract whole numbers up to 4 digits, multiply 1 digit by up to 3 digits, compare whole
  numbers;
* count letters in an English word, spell it, reverse it (up to 8 letters), name its first and last
  letter, count its letters, sort 3 to 5 numbers up to 999;
* define about 1200 common English nouns (glosses of WordNet, learned by heart);
* tell short stories from templates, say who it is, greet;
* continue a conversation: remember a name, a city, a color, a dog's name or an age, continue with the
  last result (`Add 5 to that.`) or the last word (`Spell it.`);
* call one of several tools of the request, say that none fits, answer by itself what needs none, and
  answer with a tool's result;
* answer in JSON where the question or the system text asks for it.

It cannot do anything else: no general knowledge, no other languages, no code, one call at a time. Plain
questions with lower-case English words work best. A name is remembered behind its own answer (`Nice to
meet you, Anna!`), not behind one that somebody else wrote.

## Tools
The prompt has the tools in a numbered list, each with its description first and then its name and its
parameters:
```
{listing}
```
The thinking says what is wanted and behind it the numbers of the lines that have it (`watch 1 3 donkey 3`),
repeats the line that fits, and has the tool's name and its arguments. A call has DeepSeek-R1's form. Descriptions of parameters, `required` and nested
schemas are not shown to the model. An argument that the request does not name is left out.

## Shape
Hidden width 256, 4 layers (1 dense, 768 wide; the others with 64 routed experts of 64, of which 8 are
chosen out of 4 of 8 groups, and 1 shared expert) and 1 MTP module. 8 heads, query rank 128, latent rank
128, heads of 32 + 16 (RoPE) and 32 (values), 4096 tokens, untied head, YaRN with factor 4 over 512
positions. About 16.9 million parameters with the MTP module, if embedding and head are counted once.

MTP: h is the hidden state after the last norm. The input is eh_proj(concat(enorm(embed(t+1)),
hnorm(h_t))) at position t. Through shared_head.norm and shared_head.head it predicts token t+2.

## Training
{total:,} tokens in all, {tokens:,} of them in the last run, in steps of 4096. Muon for matrices, Adam for
embedding, head, gates and norms; products in bfloat16, weights in float; the loss counts the last answer
of a document. The weights are the mean of the ends of the last two runs. The MTP loss has weight 0.3. Experts are balanced by their biases. Loss of the last 50
steps: {loss[0]:.4f} (right tokens {loss[1]:.4f}), MTP {loss[2]:.4f} ({loss[3]:.4f}). A part of it cannot
go away: the choices in stories are random. Load of the busiest expert by the mean on training data:
{skew} (the last one is the MTP module).

## Evaluation
A server with these weights, greedy. In eval.jsonl the ordered pairs of numbers, the lists of numbers and
the words to spell or count never occur in such a question of the training. For definitions the word was
trained, but never in this phrasing, so this measures recall; for names likewise. The 8 identity questions
are trained as they stand. chat/multi is a held-out question after an earlier turn. eval.tokens.jsonl has
the same prompts as token ids.

| kind | right |
| --- | --- |
{single}

eval_tools.jsonl has held-out names of tools, and values that occur in no training document with tools.
The wordings of the requests are those of the training: it measures whether the model reads names and
values from the prompt, not whether it understands any request.

| kind | what is asked | right |
| --- | --- | --- |
{tools}

eval_chat.jsonl: chats with the model's own answers as the history. A story counts if it ends, names its
animal and has 4 to 14 sentences.

| kind | what is asked | right answers |
| --- | --- | --- |
{chats}

Accepted drafts of the MTP module: {single_drafts} on eval.jsonl, {tools_drafts} on eval_tools.jsonl.

## Samples
Greedy. The otter, the word strawberry and the names of the tools are in the training data.
```
{samples}
```

## Load of experts by kind of question
The busiest expert by the mean, on half of the questions of eval.jsonl. On one kind alone the load is less
even, so a change of topic moves the busy experts.

| kind | layer 1 | layer 2 | layer 3 | MTP |
| --- | --- | --- | --- | --- |
{load}"""


def percent(part, whole):
    """A share as the tables have it."""
    return f"{part}/{whole} = {100 * part / whole:.1f} %"


def read(folder, name):
    """One of the files with figures."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def described_rows(accuracy, kinds):
    """Rows of a table: kind, what it is, share."""
    return "\n".join(f"| {kind} | {text} | {percent(*accuracy[kind])} |" for kind, text in kinds.items())


def samples(folder):
    """Prompts with their answers."""
    prompts = [BOS + USER + question + ASSISTANT for question in SAMPLES]
    prompts.append(BOS + WEATHER_TOOLS + USER + "What is the weather in Paris?" + ASSISTANT)
    answers = Net(os.path.join(folder, "model")).generate([tokenizer.encode(prompt) for prompt in prompts])
    return "\n------\n".join(prompt + tokenizer.decode(answer) for prompt, answer in zip(prompts, answers))


def drafts(figures):
    """Accepted drafts of all."""
    right, all_of_them = figures["drafts"]
    return percent(int(right), int(all_of_them))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder")
    folder = parser.parse_args().folder
    checkpoint = torch.load(os.path.join(folder, "trained.pt"), map_location="cpu")
    single, tools, chats = (read(folder, name) for name in ("single.json", "tools.json", "chats.json"))
    load = read(folder, "load.json")["load"]
    print(CARD.format(
        listing=WEATHER_TOOLS, total=checkpoint["total"], tokens=checkpoint["tok"],
        loss=checkpoint["hist"][-50:].mean(0),
        skew=", ".join(f"{each:.2f}" for each in checkpoint["skew"]),
        single="\n".join(f"| {kind} | {percent(*count)} |" for kind, count in single["accuracy"].items()),
        tools=described_rows(tools["accuracy"], TOOL_KINDS),
        chats=described_rows(chats["accuracy"], CHAT_KINDS),
        single_drafts=drafts(single), tools_drafts=drafts(tools), samples=samples(folder),
        load="\n".join(f"| {kind} | {' | '.join(map(str, layers))} |" for kind, layers in load.items())))


if __name__ == "__main__":
    main()
