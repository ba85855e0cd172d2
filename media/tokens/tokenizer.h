// The interface of tokenizers: from texts to the numbers of a vocabulary, and back.
//
// Implement it for a tokenizer of your own; media/tokens/sentencepiece.h has one.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/stage/call_context.h"

namespace energon {

/// Ids with a meaning of their own; absent: the vocabulary has none.
struct SpecialTokens {
  std::optional<std::int32_t> begin = std::nullopt;  ///< of a text (BOS)
  std::optional<std::int32_t> end = std::nullopt;    ///< of a text (EOS)
  std::optional<std::int32_t> pad = std::nullopt;
  std::optional<std::int32_t> unknown = std::nullopt;
};

/// Immutable: const functions are thread-safe, and processes that are forked share its memory. The
/// same text must always give the same tokens, in every process.
class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  /// Ids in [0, vocabulary_size()) of `text`, which is UTF-8. Throws Error for a text that has no
  /// tokens.
  virtual std::vector<std::int32_t> tokens(std::string_view text) const = 0;

  /// For training: as tokens(), but may draw one of several ways to divide the text from `rng`,
  /// from nothing else.
  virtual std::vector<std::int32_t> drawn_tokens(std::string_view text, CallRng& /*rng*/) const {
    return tokens(text);
  }

  /// The text of `ids`. Throws Error (kInvalidArgument) for an id that is not in the vocabulary.
  virtual std::string text(std::span<const std::int32_t> ids) const = 0;

  virtual std::int32_t vocabulary_size() const = 0;
  virtual SpecialTokens special_tokens() const = 0;
};

}  // namespace energon
