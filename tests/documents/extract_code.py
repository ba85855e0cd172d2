"""extract_code.py ROOT OUTPUT_FOLDER PAGE…: writes the C++ blocks of pages as files that can be compiled.

One file per block, block_NAME_LINE.cpp; those that need libtorch are block_torch_NAME_LINE.cpp. Prints the names. Unchanged files are not written
again; files of removed blocks are removed.
"""

import pathlib
import sys

from blocks import PageError, read_blocks


def code_of(block):
    includes = [(i, line) for i, line in enumerate(block.lines) if line.startswith("#include")]
    usings = [(i, line) for i, line in enumerate(block.lines) if line.startswith("using namespace")]
    top = {i for i, _ in includes + usings}
    text = "".join(f'#line {block.line + i} "{block.page}"\n{line}\n' for i, line in includes)
    text += "".join(f"{line}\n" for line in block.settings.get("setup", []) if line.startswith("#include"))
    text += "using namespace energon;\n"
    text += "".join(f"{line}\n" for line in block.settings.get("setup", []) if not line.startswith("#include"))
    text += f'void block_{block.line}() {{\n#line {block.line} "{block.page}"\n'
    text += "".join(("" if i in top else line) + "\n" for i, line in enumerate(block.lines))
    return text + "}\n"


def main():
    root, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {}
    try:
        for page in map(pathlib.Path, sys.argv[3:]):
            name = str(page.relative_to(root).with_suffix("")).replace("/", "_")
            for block in read_blocks(page):
                if block.kind == "compile":
                    torch = "torch_" if "torch" in block.settings else ""
                    wanted[f"block_{torch}{name}_{block.line}.cpp"] = code_of(block)
    except PageError as error:
        sys.exit(str(error))
    for old in folder.glob("block_*.cpp"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
