#include "cli/preview/html_page.h"

#include <charconv>
#include <cstddef>

#include <fmt/format.h>

#include "cli/output.h"
#include "cli/preview/html_text.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "io/bytes.h"
#include "io/json.h"
#include "io/sha.h"
#include "wrappers/batching/pack_selection.h"

namespace energon::cli {

// --- Style and script ---

namespace {

/// The content of <style>: light or dark as the reader's system prefers, one column on a phone.
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

/// The content of <script>: shows an original when its thumbnail is clicked.
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

}  // namespace

// --- The page ---

namespace {

// 'sha256-…' of Content Security Policy Level 3: the digest in base64.
std::string policy_hash(std::string_view script) {
  Sha256 hash;
  hash.update(as_bytes(script));
  const std::string digits = hash.finish();
  std::string digest;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned char byte = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    digest += static_cast<char>(byte);
  }
  return fmt::format("'sha256-{}'", to_base64(digest));
}

std::string head_html(const std::string& title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "media-src data:; style-src 'unsafe-inline'; script-src {}; base-uri 'none'; "
      "form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n",
      policy_hash(page_script()), html_text(title), page_style());
}

std::string top_html(const HtmlPage& page) {
  std::string html =
      fmt::format("<div class=\"top\">\n<h1><bdi>{}</bdi></h1>\n", html_text(page.title));
  for (const std::string& fact : page.facts) {
    html += fmt::format("<p>{}</p>\n", html_text(fact));
  }
  for (const std::string& warning : page.warnings) {
    html += fmt::format("<p class=\"warning\">{}</p>\n", html_text(warning));
  }
  return html + "</div>\n";
}

std::string column_html(const PageColumn& column) {
  std::string html =
      fmt::format("<section class=\"column\">\n<header><h2><bdi>{}</bdi></h2><p>{}</p>",
                  html_text(column.title), html_text(column.facts));
  if (column.share >= 0) {
    html += fmt::format(R"(<span class="share"><i style="width:{:.2f}%"></i></span>)",
                        column.share * 100);
  }
  html += "</header>\n<div class=\"cards\">\n";
  for (const std::string& card : column.cards) {
    html += card;
  }
  return html + "</div>\n</section>\n";
}

}  // namespace

std::string to_html(const HtmlPage& page) {
  std::string html = head_html(page.title) + "<body>\n" + top_html(page) + page.packs +
                     "<main class=\"columns\">\n";
  for (const PageColumn& column : page.columns) {
    html += column_html(column);
  }
  html += fmt::format(
      "</main>\n<dialog><img alt=\"the original\"></dialog>\n<script>{}</script>\n"
      "</body>\n</html>\n",
      page_script());
  return html;
}

// --- Packs ---

namespace {

constexpr const char* kLengthField = "length";

Sample sample_of_length(std::int64_t length) {
  Sample sample;
  sample.fields.emplace_back(kLengthField, length);
  return sample;
}

double percent_of(std::int64_t length, std::int64_t max_length) {
  return 100.0 * static_cast<double>(length) / static_cast<double>(max_length);
}

std::string pack_bar(const std::vector<const PackedLength*>& pack, std::int64_t max_length,
                     const std::string& unit) {
  std::int64_t sum = 0;
  std::string segments;
  for (const PackedLength* const sample : pack) {
    sum += sample->length;
    segments += fmt::format(R"(<i style="width:{:.3f}%" title="{}: {} {}"></i>)",
                            percent_of(sample->length, max_length), html_text(sample->key),
                            with_separators(sample->length), html_text(unit));
  }
  return fmt::format("<li><span class=\"bar\">{}</span> {:.1f} % <small>{} in {}</small></li>\n",
                     segments, percent_of(sum, max_length), with_separators(sum),
                     plural(static_cast<std::int64_t>(pack.size()), "sample"));
}

std::string too_long_html(const std::vector<const PackedLength*>& samples) {
  std::string html;
  for (const PackedLength* const sample : samples) {
    html += fmt::format("<p class=\"reason\">Fits into no pack: <bdi>{}</bdi>, {}</p>\n",
                        html_text(sample->key), with_separators(sample->length));
  }
  return html;
}

}  // namespace

std::string packs_html(const std::vector<PackedLength>& samples, std::int64_t max_length,
                       const std::string& unit) {
  std::vector<const PackedLength*> packable;
  std::vector<const PackedLength*> too_long;
  std::vector<Sample> lengths;
  std::int64_t sum = 0;
  for (const PackedLength& sample : samples) {
    if (sample.length > max_length) {
      too_long.push_back(&sample);
      continue;
    }
    packable.push_back(&sample);
    lengths.push_back(sample_of_length(sample.length));
    sum += sample.length;
  }
  const CallResources resources;
  const RestoreKey key;
  CallContext context(resources, key, 0);  // of no use to pack_by_length()
  const auto packs =
      pack_by_length([](const Sample& sample) { return sample.integer(kLengthField); }, max_length)(
          lengths, context);
  const auto count = static_cast<std::int64_t>(packs.size());
  std::string html = fmt::format(
      "<section class=\"packs\"><h2>Packs</h2><p>{} in {} of {} {}: {:.1f} % full</p>\n<ol>\n",
      plural(static_cast<std::int64_t>(packable.size()), "sample"), plural(count, "pack"),
      with_separators(max_length), html_text(unit),
      count == 0 ? 0.0 : percent_of(sum, max_length) / static_cast<double>(count));
  for (const std::vector<std::size_t>& positions : packs) {
    std::vector<const PackedLength*> pack;
    pack.reserve(positions.size());
    for (const std::size_t position : positions) {
      pack.push_back(packable[position]);
    }
    html += pack_bar(pack, max_length, unit);
  }
  return html + "</ol>\n" + too_long_html(too_long) + "</section>\n";
}

}  // namespace energon::cli
