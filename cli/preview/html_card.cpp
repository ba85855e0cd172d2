#include "cli/preview/html_card.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "cli/decoded_file.h"
#include "cli/output.h"
#include "cli/preview/html_media.h"
#include "cli/preview/html_text.h"
#include "cli/preview/html_value.h"
#include "io/error.h"
#include "io/lint/media_header.h"
#include "media/data/documents.h"
#include "media/decode/sample_decoder.h"

namespace energon::cli {

// --- Parts ---

namespace {

struct HtmlPart {
  std::string html;
  bool is_failed = false;
};

constexpr std::size_t kShownText = 1500;                       // bytes; longer text folds
constexpr std::size_t kMostShownText = std::size_t{64} << 10;  // bytes
constexpr std::size_t kLargestTree = std::size_t{16} << 20;    // bytes of JSON and the like

std::string lower_suffix(std::string_view name) {
  std::string suffix(name.substr(name.rfind('.') + 1));
  std::ranges::transform(suffix, suffix.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return suffix;
}

std::string size_text(std::uint64_t bytes) {
  return bytes < 1024 ? plural(static_cast<std::int64_t>(bytes), "byte") : human_bytes(bytes);
}

std::string folding_text(std::string_view text) {
  const std::string_view beginning = whole_characters(text, kShownText);
  if (beginning.size() == text.size()) {
    return fmt::format("<pre class=\"prose\" dir=\"auto\">{}</pre>", html_lines(text));
  }
  const std::string_view shown = whole_characters(text, kMostShownText);
  return fmt::format(
      "<pre class=\"prose\" dir=\"auto\">{}…</pre><details><summary>show all{}</summary><pre "
      "class=\"prose\" dir=\"auto\">{}</pre></details>",
      html_lines(beginning),
      shown.size() < text.size()
          ? fmt::format(", up to {}", human_bytes(static_cast<std::uint64_t>(shown.size())))
          : "",
      html_lines(shown));
}

/// Shows the bytes of one part.
class BytesHtml {
 public:
  BytesHtml(const HtmlPartOptions& options, PageBudget& budget)
      : options_(options), budget_(budget) {}

  // Throws as the decoders.
  MediaHtml show(std::string_view name, const SharedBytes& bytes) {
    if (const auto inside = name_inside_gzip(name)) {
      const SharedBytes expanded = expand_gzip(bytes.view, {}, heap_memory());
      MediaHtml html = show(*inside, expanded);
      html.facts = fmt::format("gzip of {}{}{}", human_bytes(expanded.size()),
                               html.facts.empty() ? "" : ", ", html.facts);
      return html;
    }
    const auto named = content_kind_of_name(name);
    if (named) {
      return show_kind(*named, name, bytes);
    }
    if (const auto found = content_kind_of_bytes(bytes.view)) {
      try {
        return show_kind(*found, name, bytes);
      } catch (const Error&) {  // the name does not promise this kind
      }
    }
    return show_unknown(bytes);
  }

  /// Without decoding: with escapes if it is text by its name.
  static MediaHtml show_failed(std::string_view name, const SharedBytes& bytes) {
    const auto kind = content_kind_of_name(name);
    const bool is_text =
        kind == ContentKind::kText || kind == ContentKind::kInteger || kind == ContentKind::kJson;
    return is_text && bytes.size() > 0 ? MediaHtml{"text", folding_text(bytes.text())}
                                       : show_unknown(bytes);
  }

  /// By its content.
  static MediaHtml show_unknown(const SharedBytes& bytes) {
    if (bytes.size() == 0) {
      return {"", "<p class=\"note\">Empty.</p>"};
    }
    if (const auto header = read_media_header(bytes.view)) {
      return {header->width == 0
                  ? std::string(header->format)
                  : fmt::format("{}, {} × {}", header->format, header->width, header->height),
              hex_html(bytes.view)};
    }
    return looks_like_text(bytes.text()) ? MediaHtml{"text", folding_text(bytes.text())}
                                         : MediaHtml{"", hex_html(bytes.view)};
  }

 private:
  MediaHtml show_kind(ContentKind kind, std::string_view name, const SharedBytes& bytes) {
    switch (kind) {
      case ContentKind::kImage:
        return show_image(name, bytes);
      case ContentKind::kAv:
        return av_html(lower_suffix(name), bytes, budget_);
      case ContentKind::kText:
        return {"text", folding_text(decode_text(bytes.view))};
      case ContentKind::kInteger:
        return {"number", fmt::format("<p class=\"large\">{}</p>", decode_integer(bytes.view))};
      default:
        return show_tree(kind, name, bytes);
    }
  }

  MediaHtml show_image(std::string_view name, const SharedBytes& bytes) {
    MediaHtml html = image_html(name, bytes.view, budget_);
    if (options_.image_decoder) {
      html.content +=
          value_html(options_.image_decoder->decode_part("image.png", bytes, heap_memory()));
    }
    return html;
  }

  static MediaHtml show_tree(ContentKind kind, std::string_view name, const SharedBytes& bytes) {
    const bool is_document = kind == ContentKind::kJson || kind == ContentKind::kMessagePack ||
                             kind == ContentKind::kCbor;
    if (is_document && bytes.size() > kLargestTree) {
      MediaHtml html = show_unknown(bytes);
      html.facts = fmt::format("{}, too large for a tree", to_string(kind));
      return html;
    }
    return {
        std::string(to_string(kind)),
        value_html(SampleDecoder({.guess_content = true}).decode_part(name, bytes, heap_memory()))};
  }

  const HtmlPartOptions& options_;
  PageBudget& budget_;
};

std::string framed(std::string_view name, const std::string& facts, const std::string& content,
                   bool is_failed) {
  return fmt::format("<section{}><h3><bdi>{}</bdi> <small>{}</small></h3>{}</section>\n",
                     is_failed ? " class=\"bad\"" : "", html_text(name), facts, content);
}

/// One part by its kind (media/decode/sample_decoder.h): images, sound, video, text, numbers, JSON
/// and arrays are shown as such, other bytes in hexadecimal. A part that should be decodable by its
/// name, but is not, is_failed and shows the reason. Does not throw, whatever `content` contains.
HtmlPart part_html(std::string_view name, const Value& content, const HtmlPartOptions& options,
                   PageBudget& budget) {
  const auto* const bytes = std::get_if<SharedBytes>(&content.base());
  const std::uint64_t left = budget.left();
  MediaHtml shown;
  bool is_failed = false;
  try {
    shown = bytes != nullptr ? BytesHtml(options, budget).show(name, *bytes)
                             : MediaHtml{"", value_html(content)};
  } catch (const std::exception& error) {
    is_failed = true;
    shown = bytes != nullptr ? BytesHtml::show_failed(name, *bytes) : MediaHtml();
    shown.content = fmt::format("<p class=\"reason\">Cannot be decoded: {}</p>{}",
                                html_text(reason_of_failure(error)), shown.content);
  }
  if (bytes != nullptr) {
    shown.facts = size_text(bytes->size()) + (shown.facts.empty() ? "" : ", ") + shown.facts;
  }
  if (left == budget.left() && !budget.take(shown.content.size())) {  // not a picture or a player
    shown.content = kPageIsFull;
  }
  std::string html = framed(name, shown.facts, shown.content, is_failed);
  return {std::move(html), is_failed};
}

}  // namespace

// --- Cards ---

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
