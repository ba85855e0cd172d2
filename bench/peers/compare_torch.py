"""Runs bench_media_crops, the Python package and torchvision (torch_images.py) in turn, each in its own process, and writes a report of the
ratios.

Needs only the standard library; PYTHON belongs to an environment with torch and torchvision, and can import energon_cpp unless --without-python.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SIZES = ["512 x 384", "1024 x 768"]
OURS = "loader, 2 workers, batch 64, float32"
TORCH = "torch DataLoader, 2 workers, batch 64, float32"
PYTHON = "Python, with flips: energon_cpp, 2 workers, batch 64, float32"
TORCH_FLIPS = "Python, with flips: torch DataLoader, 2 workers, batch 64, float32"
TARGET, PYTHON_TARGET = 2.0, 2.2


def run_ours(arguments, size, json_path):
    """The report of bench_media_crops, with one repetition after a warm-up."""
    flags = ["--large"] if size == SIZES[1] else []
    subprocess.run([arguments.bench, "--loader-only", *flags, "--images", str(arguments.images), "--repetitions", "1",
                    "--data", arguments.data, "--json", json_path], check=True, stdout=subprocess.DEVNULL)
    return json.loads(pathlib.Path(json_path).read_text(encoding="utf-8"))


def run_python(arguments, folder, *flags):
    """Reads the tars of our run, with the same number of images."""
    command = [arguments.python, "-B", str(HERE / "torch_images.py"), folder, *flags]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def row(name, rates, more):
    return {"name": name, "unit": "images/s", "median": statistics.median(rates), "min": min(rates), "max": max(rates),
            "repetitions": len(rates), **more}


def add_size(report, size, ours, torch, names, target):
    """`names`: of our result, of torch's, and of the target."""
    ratios = [a / b for a, b in zip(ours, torch)]
    ratio = statistics.median(ratios)
    report["results"] += [row(f"{size}: {names[0]}", ours, {"ratio_to_torch": ratio, "ratio_min": min(ratios), "ratio_max": max(ratios)}),
                          row(f"{size}: {names[1]}", torch, {})]
    report["targets"].append({"name": f"{names[2]} of {size}: ratio to torch's DataLoader", "unit": "", "value": ratio,
                              "target": target, "at": "least", "met": ratio >= target})


def measure(arguments):
    """A report of the same form as those of the programs."""
    report = {"name": "media_torch", "question": "How many random crops of JPEGs do two workers deliver, compared with torch's DataLoader?"}
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            ours, torch, ours_python, torch_flips = [], [], [], []
            for _ in range(arguments.repetitions):
                own = run_ours(arguments, size, str(pathlib.Path(folder) / "ours.json"))
                images = own["settings"]["folder"]
                peer = run_python(arguments, images)
                ours.append(own["results"][0]["median"])
                torch += peer["images_per_second"]
                print(f"{size}: ours {ours[-1]:.0f}, torch {torch[-1]:.0f} images/s", flush=True)
                if arguments.with_python:
                    ours_python += run_python(arguments, images, "--flips", "--loader", "energon_cpp")["images_per_second"]
                    torch_flips += run_python(arguments, images, "--flips")["images_per_second"]
                    print(f"{size}: in Python, ours {ours_python[-1]:.0f}, torch {torch_flips[-1]:.0f} images/s", flush=True)
                if "machine" not in report:
                    report.update(machine=own["machine"], settings={"repetitions": arguments.repetitions, "images": arguments.images,
                                                                    "torch": peer["torch"], "torchvision": peer["torchvision"]},
                                  results=[], targets=[])
            add_size(report, size, ours, torch, (OURS, TORCH, "random crops of JPEGs"), TARGET)
            if arguments.with_python:
                names = PYTHON, TORCH_FLIPS, "Python, random crops and flips of JPEGs"
                add_size(report, size, ours_python, torch_flips, names, PYTHON_TARGET)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", required=True, help="the program bench_media_crops")
    parser.add_argument("--python", required=True, help="with torch and torchvision")
    parser.add_argument("--data", required=True, help="folder of the datasets")
    parser.add_argument("--json", required=True, help="file for the report, or '' for none")
    parser.add_argument("--without-python", dest="with_python", action="store_false", help="without the Python package")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    report = measure(arguments)
    if report["machine"]["assertions"]:
        print("bench_media_crops was built with assertions on; use the preset release", file=sys.stderr)
    for result in report["results"]:
        print(f"{result['name']}: {result['median']:.0f} images/s ({result['min']:.0f} to {result['max']:.0f})")
    for target in report["targets"]:
        print(f"{target['name']}: {target['value']:.2f} (asked: at least {target['target']:.2f}): {'met' if target['met'] else 'MISSED'}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
