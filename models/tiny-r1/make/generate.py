#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""generate.py --out FOLDER: writes FOLDER/train.npz, a mixture of all kinds of documents.

train.npz has `ids` (the tokens of all documents), `mask` (1 where a token is the model's answer, which the
loss counts) and `starts` (where each document begins, and the end). The same seed gives the same bytes."""
import argparse
import os

import numpy

from chat import earlier, single
from conversations import long_conversation, short_conversation
from documents import answer_of, any_system_text, of_turns, prompt_of
from draw import chance, rng, weighted
from json_answers import json_document
from tokenizer import tokenizer
from tool_documents import tool_document

# Shares of documents: single questions, the same under a system text, tools, JSON, conversations, long ones.
MIXTURE = "45,2,28,12,12,1"
# Shares among single questions: arithmetic, letters, definitions, stories, small talk, names, several.
SINGLE_MIXTURE = "28,40,30,4,4,3,2"
TOKENS_MAX = 800
CONVERSATION_TOKENS_MAX = 1500


def weights(text):
    """Numbers with commas between them."""
    return [float(number) for number in text.split(",")]


def single_document(shares, system):
    """A single question."""
    kind, turns = single(shares)
    return of_turns(kind, turns, any_system_text() if system else "")


def conversation_document(kind, draw):
    """A conversation, in some cases under a system text."""
    turns = draw()
    turns = [earlier(turn) for turn in turns[:-1]] + turns[-1:]
    return of_turns(kind, turns, any_system_text() if chance(.15) else "")


def draw_document(mixture, single_mixture):
    """A document of the mixture."""
    kind = weighted(["single", "system", "tools", "json", "conversation", "long"], mixture)
    if kind in ("single", "system"):
        return single_document(single_mixture, kind == "system")
    if kind == "tools":
        return tool_document()
    if kind == "json":
        return json_document()
    return conversation_document(kind, short_conversation if kind == "conversation" else long_conversation)


def generate(count, mixture, single_mixture):
    """(ids, mask, starts, documents by kind) of `count` documents. Too long ones are left out."""
    ids, mask, starts, by_kind = [], [], [0], {}
    while len(starts) <= count:
        document = draw_document(mixture, single_mixture)
        prompt, answer = tokenizer.encode(prompt_of(document)), tokenizer.encode(answer_of(document))
        of_conversation = document.kind in ("conversation", "long")
        if len(prompt) + len(answer) > (CONVERSATION_TOKENS_MAX if of_conversation else TOKENS_MAX):
            continue
        ids += prompt + answer
        mask += [0] * len(prompt) + [1] * len(answer)
        starts.append(len(ids))
        by_kind[document.kind] = by_kind.get(document.kind, 0) + 1
    return ids, mask, starts, by_kind


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", required=True, help="the folder to write")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--documents", type=int, default=45000)
    parser.add_argument("--mixture", type=weights, default=weights(MIXTURE))
    parser.add_argument("--single-mixture", type=weights, default=weights(SINGLE_MIXTURE))
    options = parser.parse_args()
    rng.seed(options.seed + 1)
    ids, mask, starts, by_kind = generate(options.documents, options.mixture, options.single_mixture)
    os.makedirs(options.out, exist_ok=True)
    numpy.savez(os.path.join(options.out, "train.npz"), ids=numpy.array(ids, numpy.uint16),
                mask=numpy.array(mask, numpy.uint8), starts=numpy.array(starts, numpy.int64))
    longest = max(end - start for start, end in zip(starts, starts[1:]))
    print(f"{options.documents} documents, {len(ids)} tokens, {sum(mask)} of answers, longest {longest}")
    print(by_kind)


if __name__ == "__main__":
    main()
