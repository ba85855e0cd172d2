#include "cli/show/html_style.h"

namespace energon::cli {

std::string_view page_style() {
  return R"css(
:root {
  color-scheme: light dark;
  --page: #f4f5f7; --card: #fff; --line: #d9dde3; --ink: #1c2128; --soft: #626b78;
  --strong: #0b62c4; --bad: #c4262e; --bad-page: #fdeced; --code: #eef1f5;
  --number: #8a4b00; --text: #1a7045;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --card: #1d2127; --line: #343b44; --ink: #e4e8ee; --soft: #9aa4b2;
    --strong: #6cb0ff; --bad: #ff7b80; --bad-page: #3a1c20; --code: #272d35;
    --number: #e6b070; --text: #7bd0a0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; padding: 1.2rem; background: var(--page); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif;
}
h1 { font-size: 1.35rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: .85rem; margin: 0 0 .35rem; overflow-wrap: anywhere; }
small, .note, .type, header p { color: var(--soft); font-weight: normal; }
small, header p, .note { font-size: .8rem; }
p { margin: .25rem 0; }
code, pre, .tree { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
code, pre, .tree { font-size: .78rem; }
code { overflow-wrap: anywhere; }
.top { margin-bottom: 1rem; }
.warning, .reason {
  background: var(--bad-page); color: var(--bad); border-radius: 6px; padding: .4rem .6rem;
  overflow-wrap: anywhere;
}
.columns { display: flex; gap: 1.2rem; align-items: flex-start; overflow-x: auto; }
.column { flex: 1 0 340px; max-width: 520px; min-width: 0; }
.column:only-child { max-width: none; }
.column > header { margin: 0 0 .6rem; border-bottom: 2px solid var(--strong); padding-bottom: .4rem; }
.share { display: block; height: 4px; background: var(--line); border-radius: 2px; margin-top: .3rem; }
.share > i { display: block; height: 100%; background: var(--strong); border-radius: 2px; }
.cards { display: grid; gap: 1rem; align-items: start; }
.column:only-child > .cards { grid-template-columns: repeat(auto-fill, minmax(min(100%, 350px), 1fr)); }
article {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px; overflow: hidden;
  min-width: 0;
}
article.bad { border-color: var(--bad); box-shadow: 0 0 0 1px var(--bad); }
article > header { padding: .6rem .8rem; background: var(--code); }
article.bad > header { background: var(--bad-page); }
article > section, article > .note, article > .reason { padding: .6rem .8rem; margin: 0; }
article > section + section { border-top: 1px solid var(--line); }
article > .reason { border-radius: 0; }
img, video {
  display: block; max-width: 100%; height: auto; border-radius: 4px;
  background: repeating-conic-gradient(#8883 0 25%, #8881 0 50%) 0 0/16px 16px;
}
img { image-orientation: none; }
audio { width: 100%; display: block; }
.zoom { border: 0; padding: 0; background: none; cursor: zoom-in; max-width: 100%; }
.zoom:focus-visible { outline: 3px solid var(--strong); }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 24rem; overflow: auto; }
pre.prose { font: inherit; }
pre.hex { white-space: pre; font-size: .68rem; }
.large { font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.tree { overflow-x: auto; }
.tree ol { list-style: none; margin: 0; padding-left: 1.1rem; border-left: 1px solid var(--line); }
.tree b { font-weight: 600; }
.number { color: var(--number); }
.text { color: var(--text); white-space: pre-wrap; overflow-wrap: anywhere; }
.word { color: var(--strong); }
.tensor { overflow-wrap: anywhere; }
summary { cursor: pointer; }
.tree details, .tree summary { display: inline; list-style: none; }
.tree summary::before { content: "\25B8\00A0"; color: var(--soft); }
.tree details[open] > summary::before { content: "\25BE\00A0"; }
.tree summary::-webkit-details-marker { display: none; }
.packs { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .8rem; margin: 0 0 1rem; }
.packs ol { padding: 0; margin: .5rem 0 0; list-style: none; columns: 420px; column-gap: 2rem; }
.packs li { break-inside: avoid; margin: 0 0 .4rem; white-space: nowrap; font-variant-numeric: tabular-nums; }
.bar { display: inline-flex; width: 45%; height: .9rem; background: var(--code); border-radius: 3px; overflow: hidden; vertical-align: middle; }
.bar i { background: var(--strong); border-right: 1px solid var(--card); opacity: .85; }
.bar i:nth-child(even) { opacity: .6; }
dialog { border: 0; padding: 0; background: none; max-width: 96vw; max-height: 96vh; }
dialog::backdrop { background: #000c; }
dialog img { max-width: 96vw; max-height: 96vh; cursor: zoom-out; }
@media (max-width: 700px) {
  body { padding: .7rem; }
  .columns { display: block; }
  .column { max-width: none; margin-bottom: 1.5rem; }
}
)css";
}

std::string_view page_script() {
  return R"js(
const dialog = document.querySelector('dialog');
document.addEventListener('click', (event) => {
  const thumbnail = event.target.closest('.zoom');
  if (thumbnail) {
    dialog.firstElementChild.src = thumbnail.dataset.original;
    dialog.showModal();
  } else if (dialog.open) {
    dialog.close();
  }
});
)js";
}

}  // namespace energon::cli
