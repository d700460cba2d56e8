# SPDX-License-Identifier: Apache-2.0
"""The model's tokenizer: a byte-level BPE with the pre-tokenizer of DeepSeek-V3's tokenizer.json.

The vocabulary was trained for the model's first version and is kept: tokenizer.json is an input here."""
import json
import os

import regex

MODEL_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

BOS = "<｜begin▁of▁sentence｜>"
EOS = "<｜end▁of▁sentence｜>"
USER = "<｜User｜>"
ASSISTANT = "<｜Assistant｜>"
THINK = "<think>"
END_THINK = "</think>"
CALLS_BEGIN = "<｜tool▁calls▁begin｜>"
CALLS_END = "<｜tool▁calls▁end｜>"
CALL_BEGIN = "<｜tool▁call▁begin｜>"
CALL_END = "<｜tool▁call▁end｜>"
TOOL_SEP = "<｜tool▁sep｜>"
OUTPUTS_BEGIN = "<｜tool▁outputs▁begin｜>"
OUTPUTS_END = "<｜tool▁outputs▁end｜>"
OUTPUT_BEGIN = "<｜tool▁output▁begin｜>"
OUTPUT_END = "<｜tool▁output▁end｜>"

# A mark in the training text that forces a boundary of tokens. The encoder removes it.
CUT = "\ue000"


def byte_characters():
    """The printable character that stands for each byte in a byte-level vocabulary."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    table.update({byte: chr(256 + index) for index, byte in enumerate(others)})
    return table


CHARACTER_OF = byte_characters()
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


def isolate(pattern, text):
    """Splits a text into the matches of a pattern and what lies between them."""
    pieces, position = [], 0
    for match in pattern.finditer(text):
        if match.start() > position:
            pieces.append(text[position:match.start()])
        if match.end() > match.start():
            pieces.append(match.group())
        position = match.end()
    if position < len(text):
        pieces.append(text[position:])
    return pieces


def merge_pair(symbols, left, right):
    """Joins each occurrence of a pair, from left to right."""
    merged, index = [], 0
    while index < len(symbols):
        if symbols[index:index + 2] == [left, right]:
            merged.append(left + right)
            index += 2
        else:
            merged.append(symbols[index])
            index += 1
    return merged


class Tokenizer:
    """Encodes and decodes as the tokenizer.json says."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            spec = json.load(file)
        self.vocabulary = spec["model"]["vocab"]
        self.rank = {tuple(pair.split(" ")): index for index, pair in enumerate(spec["model"]["merges"])}
        self.special = {token["content"]: token["id"] for token in spec["added_tokens"]}
        self.text_of = {index: text for text, index in self.vocabulary.items()}
        self.special_of = {index: text for text, index in self.special.items()}
        self.special_pattern = regex.compile("(" + "|".join(map(regex.escape, self.special)) + ")")
        splits = [step for step in spec["pre_tokenizer"]["pretokenizers"] if step["type"] == "Split"]
        self.patterns = [regex.compile(step["pattern"]["Regex"]) for step in splits]
        self.cache = {}

    def split(self, text):
        """The pieces inside which pairs may be merged."""
        pieces = [text]
        for pattern in self.patterns:
            pieces = [part for piece in pieces for part in isolate(pattern, piece)]
        return pieces

    def encode_piece(self, piece):
        """Merges the pair of the lowest rank until no known pair is left."""
        if piece not in self.cache:
            symbols = [CHARACTER_OF[byte] for byte in piece.encode()]
            while len(symbols) > 1:
                pair = min(zip(symbols, symbols[1:]), key=lambda pair: self.rank.get(pair, len(self.rank)))
                if pair not in self.rank:
                    break
                symbols = merge_pair(symbols, *pair)
            self.cache[piece] = [self.vocabulary[symbol] for symbol in symbols]
        return self.cache[piece]

    def encode(self, text):
        """The ids of a text. Special tokens are recognised, and CUT ends a token."""
        ids = []
        for part in self.special_pattern.split(text):
            if part in self.special:
                ids.append(self.special[part])
                continue
            for segment in part.split(CUT):
                for piece in self.split(segment):
                    ids.extend(self.encode_piece(piece))
        return ids

    def tokens(self, text):
        """The text of each token."""
        return [self.decode([index]) for index in self.encode(text)]

    def decode(self, ids):
        """The text of ids, special tokens included."""
        data = b""
        for index in ids:
            if index in self.special_of:
                data += self.special_of[index].encode()
            else:
                data += bytes(BYTE_OF[character] for character in self.text_of[index])
        return data.decode("utf-8", "replace")


tokenizer = Tokenizer(os.path.join(MODEL_DIR, "tokenizer.json"))


def joined(texts):
    """Texts as one word of exactly these tokens."""
    return CUT.join(texts)


def fenced(texts):
    """The same, with a boundary before and behind it."""
    return CUT + joined(texts) + CUT


def plain(text):
    """A text without the marks of boundaries."""
    return text.replace(CUT, "")
