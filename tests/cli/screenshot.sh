#!/usr/bin/env bash Checks how a browser shows `energon preview --html`: screenshot.sh PROGRAM Makes a small tar and a page of it, lets Chromium take
#a picture, and checks that the picture has the page's size, many colors, and the color of the photograph. Exits with 77 (skipped) without Chromium or
#Python.
set -euo pipefail
program=$1
here=$(cd "$(dirname "$0")" && pwd)

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -z $browser ]] || ! command -v python3 > /dev/null; then
  echo "skipped: chromium or python3 is missing"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME=$folder ENERGON_CACHE_DIR=$folder/cache

mkdir "$folder/data"
python3 -B "$here/screenshot.py" make "$folder/data/a.tar"
"$program" preview "$folder/data" --html "$folder/page.html"
timeout 150 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
  --user-data-dir="$folder/profile" --window-size=700,600 --screenshot="$folder/page.png" "file://$folder/page.html" \
  > "$folder/browser.log" 2>&1 || { tail -5 "$folder/browser.log"; exit 1; }
python3 -B "$here/screenshot.py" check "$folder/page.png"
