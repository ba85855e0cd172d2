// Makes tokens of the texts of samples.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "media/tokens/tokenizer.h"
#include "wrappers/stages/map.h"

namespace energon {

/// Which field becomes which. `to` may be `from`, which is then replaced.
struct TokenField {
  std::string from;  ///< a text, bytes that are UTF-8, or a list of them
  std::string to;    ///< int32 of shape (tokens), or a list of such tensors
};

struct TokenizeOptions {
  /// Shared by all workers, so its model is in memory once. open_sentencepiece() or your own.
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;
  std::vector<TokenField> fields = {{"txt", "tokens"}};
  /// Texts with more tokens are cut at their end; the token of the end stays the last if it was.
  std::optional<std::int64_t> max_length = std::nullopt;
};

/// Throws Error (kInvalidArgument): no tokenizer, no name of a field, two fields with one `to`, a
/// max_length below 1. Without fields no tokenizer is needed.
void validate(const TokenizeOptions& options);

/// A function that makes tokens of all fields: Tokenizer::drawn_tokens() with the generator of the
/// sample. Tensors lie in the memory of the batch. Throws Error as validate(options); the function
/// throws, naming the field: kNotFound for a field that is missing, kInvalidArgument for one that
/// holds no text, kCorruptData for bytes that are not UTF-8, and what the tokenizer throws.
MapFunction tokenize_fields(TokenizeOptions options);

}  // namespace energon
