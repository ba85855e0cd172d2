"""Runs bench_media_crops and torch_images.py in turn, each in its own process, and writes a report of the ratio.

Needs only the standard library; PYTHON belongs to an environment with torch and torchvision.
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
TARGET = 2.0


def run_ours(arguments, size, json_path):
    """The report of bench_media_crops, with one repetition after a warm-up."""
    flags = ["--large"] if size == SIZES[1] else []
    subprocess.run([arguments.bench, "--loader-only", *flags, "--images", str(arguments.images), "--repetitions", "1",
                    "--data", arguments.data, "--json", json_path], check=True, stdout=subprocess.DEVNULL)
    return json.loads(pathlib.Path(json_path).read_text(encoding="utf-8"))


def run_torch(arguments, folder):
    """Reads the tars of our run, with the same number of images."""
    result = subprocess.run([arguments.python, "-B", str(HERE / "torch_images.py"), folder], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def row(name, rates, more):
    return {"name": name, "unit": "images/s", "median": statistics.median(rates), "min": min(rates), "max": max(rates),
            "repetitions": len(rates), **more}


def add_size(report, size, ours, torch):
    ratios = [a / b for a, b in zip(ours, torch)]
    ratio = statistics.median(ratios)
    report["results"] += [row(f"{size}: {OURS}", ours, {"ratio_to_torch": ratio, "ratio_min": min(ratios), "ratio_max": max(ratios)}),
                          row(f"{size}: {TORCH}", torch, {})]
    report["targets"].append({"name": f"random crops of JPEGs of {size}: ratio to torch's DataLoader", "unit": "", "value": ratio,
                              "target": TARGET, "at": "least", "met": ratio >= TARGET})


def measure(arguments):
    """A report of the same form as those of the programs."""
    report = {"name": "media_torch", "question": "How many random crops of JPEGs do two workers deliver, compared with torch's DataLoader?"}
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            ours, torch = [], []
            for _ in range(arguments.repetitions):
                own = run_ours(arguments, size, str(pathlib.Path(folder) / "ours.json"))
                peer = run_torch(arguments, own["settings"]["folder"])
                ours.append(own["results"][0]["median"])
                torch += peer["images_per_second"]
                print(f"{size}: ours {ours[-1]:.0f}, torch {torch[-1]:.0f} images/s", flush=True)
                if "machine" not in report:
                    report.update(machine=own["machine"], settings={"repetitions": arguments.repetitions, "images": arguments.images,
                                                                    "torch": peer["torch"], "torchvision": peer["torchvision"]},
                                  results=[], targets=[])
            add_size(report, size, ours, torch)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", required=True, help="the program bench_media_crops")
    parser.add_argument("--python", required=True, help="with torch and torchvision")
    parser.add_argument("--data", required=True, help="folder of the datasets")
    parser.add_argument("--json", required=True, help="file for the report, or '' for none")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    report = measure(arguments)
    if report["machine"]["assertions"]:
        print("bench_media_crops was built with assertions on; use the preset release", file=sys.stderr)
    for result in report["results"]:
        print(f"{result['name']}: {result['median']:.0f} images/s ({result['min']:.0f} to {result['max']:.0f})")
    for target in report["targets"]:
        print(f"{target['name']}: {target['value']:.2f} (asked: at least {TARGET:.2f}): {'met' if target['met'] else 'MISSED'}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
