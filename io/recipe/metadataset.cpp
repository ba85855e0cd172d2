#include "io/recipe/metadataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon {

ShuffleMultiplier combine(const ShuffleMultiplier& inner, const ShuffleMultiplier& outer) {
  using Mode = ShuffleMultiplier::Mode;
  for (const Mode mode : {Mode::kNone, Mode::kReplacement}) {
    if (inner.mode == mode || outer.mode == mode) {
      return {.mode = mode};
    }
  }
  ShuffleMultiplier result;
  if (__builtin_mul_overflow(inner.epochs, outer.epochs, &result.epochs)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("shuffle_over_epochs_multiplier: {} times {} is too large",
                            inner.epochs, outer.epochs));
  }
  return result;
}

std::string_view to_string(Nonmatch nonmatch) {
  switch (nonmatch) {
    case Nonmatch::kError:
      return "error";
    case Nonmatch::kSkip:
      return "skip";
    case Nonmatch::kNone:
      return "none";
  }
  return "unknown";
}

const MetadatasetSplit& Metadataset::split(const std::string& name) const {
  std::vector<std::string> known;
  for (const MetadatasetSplit& candidate : splits) {
    if (candidate.name == name) {
      return candidate;
    }
    known.push_back(printable(candidate.name));
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the metadataset has no split '{}'; known: {}", printable(name),
                          fmt::join(known, ", ")),
              {.path = path});
}

}  // namespace energon
