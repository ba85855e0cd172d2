#include "cli/show/html_page.h"

#include <cctype>
#include <charconv>
#include <cstddef>

#include <fmt/format.h>

#include "cli/show/html_style.h"
#include "cli/show/html_text.h"
#include "io/bytes.h"
#include "io/json.h"
#include "io/sha.h"

namespace energon::cli {
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

}  // namespace energon::cli
