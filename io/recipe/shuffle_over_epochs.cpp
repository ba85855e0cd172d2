#include "io/recipe/shuffle_over_epochs.h"

#include "io/option_text.h"

namespace energon {

std::optional<ShuffleOverEpochs> shuffle_over_epochs_of(std::int64_t number) {
  if (number == -1) {
    return ShuffleOverEpochs{.mode = ShuffleOverEpochs::Mode::kReplacement};
  }
  return number >= 1 ? std::optional(ShuffleOverEpochs{.epochs = number}) : std::nullopt;
}

std::optional<ShuffleOverEpochs> parse_shuffle_over_epochs(std::string_view text) {
  if (text == "none") {
    return ShuffleOverEpochs{.mode = ShuffleOverEpochs::Mode::kNone};
  }
  const auto number = parse_number<std::int64_t>(text);
  return number ? shuffle_over_epochs_of(*number) : std::nullopt;
}

std::string to_string(const ShuffleOverEpochs& shuffle) {
  switch (shuffle.mode) {
    case ShuffleOverEpochs::Mode::kNone:
      return "none";
    case ShuffleOverEpochs::Mode::kEpochs:
      return std::to_string(shuffle.epochs);
    case ShuffleOverEpochs::Mode::kReplacement:
      return "-1";
  }
  return "unknown";
}

std::optional<ShuffleOverEpochs> multiply(const ShuffleOverEpochs& a, const ShuffleOverEpochs& b) {
  using Mode = ShuffleOverEpochs::Mode;
  for (const Mode mode : {Mode::kNone, Mode::kReplacement}) {
    if (a.mode == mode || b.mode == mode) {
      return ShuffleOverEpochs{.mode = mode};
    }
  }
  ShuffleOverEpochs product;
  return __builtin_mul_overflow(a.epochs, b.epochs, &product.epochs) ? std::nullopt
                                                                     : std::optional(product);
}

}  // namespace energon
