#include "cli/show/html_packs.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "cli/show/html_text.h"
#include "cli/show/output.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "wrappers/batching/pack_selection.h"

namespace energon::cli {
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
