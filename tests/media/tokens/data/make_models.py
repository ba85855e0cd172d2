"""Trains the models of this folder and writes the results of spm_encode for strings.

    python3 make_models.py

Needs spm_train and spm_encode (Debian: sentencepiece 0.1.97). Models:

    unigram.model   160 pieces; rules of normalization (full-width letters, "æ", "fi" as one character);
                    <pad>; the user's symbols <image> and <image_2>
    bpe.model       380 pieces, with all 256 bytes, so that no string has an unknown token
"""

import json
import pathlib
import random
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RULES = [("Ａ", "A"), ("Ｂ", "B"), ("Ｃ", "C"), ("æ", "ae"), ("ﬁ", "fi"), ("e\u0301", "é"), ("\u3000", " ")]
TEXTS = [
    "a dog runs in the park.",
    "the small bird sings, and my brother listens!",
    "  two   spaces  ",
    "",
    "an old man on a blue gradient",
    "Ａ cæsar ﬁnds cafe\u0301s",
    "look: <image> and <image_2>",
    "zebra 42 ☃ 日本",
    "unseenlongword" * 5,
]


def corpus():
    draw = random.Random(7)
    who = "the dog|a cat|my brother|our teacher|the small bird|an old man|the red car|a young woman|the child".split("|")
    does = "runs|walks|is sitting|was looking|jumps|is standing|plays|waits|is reading|rides|sings|listens".split("|")
    where = ("in the park|near the river|on a blue gradient|beside the house|under the tree|at the station|over the bridge|"
             "with a yellow ball|in front of the window|behind the market|inside the kitchen|through the garden").split("|")
    numbers = "one|two|three|four|seven|twelve".split("|")
    things = "photographs|apples|mountains|children|flowers|windows|questions|letters".split("|")
    for _ in range(1500):
        yield f"{draw.choice(who)} {draw.choice(does)} {draw.choice(where)}{draw.choice('.!,')}"
        yield f"{draw.choice(numbers)} {draw.choice(things)} {draw.choice(where)}, and {draw.choice(who)} {draw.choice(does)}"


def run(*command, text=None, cwd=None):
    return subprocess.run(command, input=text, cwd=cwd, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout


def train(folder, name, *options):
    run("spm_train", "--input=corpus.txt", f"--model_prefix={name}", *options, cwd=folder)
    (HERE / f"{name}.model").write_bytes((folder / f"{name}.model").read_bytes())


def expected(name):
    # One run for each string, because an empty line is a string, too.
    def ids(text):
        return [int(i) for i in run("spm_encode", f"--model={HERE / name}.model", "--output_format=id",
                                    text=text + "\n").split()]

    def best(text):
        lines = run("spm_encode", f"--model={HERE / name}.model", "--output_format=nbest_id", "--nbest_size=3",
                    text=text + "\n").splitlines()
        return [[int(i) for i in line.split()] for line in lines]

    texts = [{"text": text, "ids": ids(text)} for text in TEXTS]
    return {"texts": texts, **({"best": {"text": TEXTS[0], "ids": best(TEXTS[0])}} if name == "unigram" else {})}


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "corpus.txt").write_text("\n".join(corpus()) + "\n", encoding="utf-8")
        rows = ("\t".join(" ".join(f"{ord(c):X}" for c in side) for side in rule) for rule in RULES)
        (folder / "rules.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        train(folder, "unigram", "--model_type=unigram", "--vocab_size=160", "--pad_id=3",
              "--normalization_rule_tsv=rules.tsv", "--user_defined_symbols=<image>,<image_2>")
        train(folder, "bpe", "--model_type=bpe", "--vocab_size=380", "--byte_fallback",
              "--normalization_rule_name=identity")
    result = {name: expected(name) for name in ("unigram", "bpe")}
    (HERE / "expected.json").write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
