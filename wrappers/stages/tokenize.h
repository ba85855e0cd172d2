// Tokenizes strings of samples.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "media/tokens/tokenizer.h"
#include "wrappers/stages/map.h"

namespace energon {

/// Maps a string field to a token field. `to` may equal `from`, which is then replaced.
struct TokenField {
  std::string from;  ///< a string, UTF-8 bytes, or a list of these
  std::string to;    ///< int32 of shape (tokens), or a list of such tensors
};

struct TokenizeOptions {
  /// Shared by all workers, so its model is in memory once. From open_sentencepiece(), or your own.
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;
  std::vector<TokenField> fields = {{"txt", "tokens"}};
  /// Longer token sequences are truncated; a final end token is kept as the last token.
  std::optional<std::int64_t> max_length = std::nullopt;
};

/// Throws Error (kInvalidArgument): no tokenizer, no name of a field, two fields with one `to`, a
/// max_length below 1. Without fields no tokenizer is needed.
void validate(const TokenizeOptions& options);

/// A function that tokenizes all fields with Tokenizer::drawn_tokens() and the sample's generator.
/// Tensors are stored in the batch's memory. Throws Error as validate(options). The function
/// throws, naming the field: kNotFound for a missing field, kInvalidArgument for one without a
/// string, kCorruptData for bytes that are not UTF-8, and whatever the tokenizer throws.
MapFunction tokenize_fields(TokenizeOptions options);

}  // namespace energon
