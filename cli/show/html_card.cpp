#include "cli/show/html_card.h"

#include <cstdint>

#include <fmt/format.h>

#include "cli/show/html_text.h"
#include "cli/show/output.h"

namespace energon::cli {
namespace {

constexpr std::size_t kMostParts = 64;
constexpr std::size_t kMostKeyBytes = 500;

std::string card_frame(bool is_failed, std::string_view title, const std::string& place,
                       const std::string& content) {
  return fmt::format(
      "<article{}>\n<header><h2><bdi>{}</bdi></h2><p>{}</p></header>\n{}</article>\n",
      is_failed ? " class=\"bad\"" : "", html_text(whole_characters(title, kMostKeyBytes)), place,
      content);
}

// Several places if the sample is joined.
std::string places_html(const Sample& sample) {
  std::string places;
  for (const SampleSource& source : sample.sources) {
    places += fmt::format("{}<bdi>{}</bdi>, sample {}", places.empty() ? "" : "<br>",
                          html_text(source.shard->shard_name), source.index_in_shard);
  }
  if (!sample.restore_key.empty()) {
    places += fmt::format("<br><code>{}</code>", html_text(sample.restore_key.text()));
  }
  return places;
}

}  // namespace

SampleCard card_of(const Sample& sample, const HtmlPartOptions& options, PageBudget& budget) {
  SampleCard card;
  std::string parts;
  for (std::size_t i = 0; i < sample.fields.size() && i < kMostParts; ++i) {
    const auto& [name, value] = sample.fields[i];
    const HtmlPart part = part_html(name, value, options, budget);
    parts += part.html;
    card.is_failed = card.is_failed || part.is_failed;
  }
  if (sample.fields.size() > kMostParts) {
    parts +=
        fmt::format("<p class=\"note\">… {} more</p>",
                    plural(static_cast<std::int64_t>(sample.fields.size() - kMostParts), "part"));
  }
  const std::string_view key = sample.keys.empty() ? std::string_view() : sample.keys.front();
  card.html = card_frame(card.is_failed, key, places_html(sample), parts);
  return card;
}

std::string card_of_failure(const FailedSample& sample, std::string_view reason) {
  std::string place = html_text(sample.shard_name);
  if (sample.index_in_shard) {
    place += fmt::format(", sample {}", *sample.index_in_shard);
  }
  return card_frame(true, sample.key.empty() ? "unreadable" : std::string_view(sample.key), place,
                    fmt::format("<p class=\"reason\">{}</p>\n", html_text(reason)));
}

}  // namespace energon::cli
