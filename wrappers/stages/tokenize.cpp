#include "wrappers/stages/tokenize.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "media/data/documents.h"

namespace energon {
namespace {

[[noreturn]] void fail_options(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what);
}

// Tokenizes strings one by one.
class TextTokens {
 public:
  TextTokens(const TokenizeOptions& options, CallContext& context)
      : options_(options), context_(context) {}

  // A tensor, or a list of tensors.
  Value of(const Value& value) const {
    if (const auto* const text = std::get_if<std::string>(&value.base())) {
      return of_text(decode_text(as_bytes(*text)));
    }
    if (const auto* const bytes = std::get_if<SharedBytes>(&value.base())) {
      return of_text(decode_text(bytes->view));
    }
    if (const auto* const list = std::get_if<List>(&value.base())) {
      List result;
      result.reserve(list->size());
      for (const Value& item : *list) {
        result.push_back(of(item));
      }
      return result;
    }
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("expected a string to tokenize, found {}", describe(value)));
  }

 private:
  Tensor of_text(const std::string& text) const {
    std::vector<std::int32_t> ids = options_.tokenizer->drawn_tokens(text, context_.rng());
    shorten(ids);
    NewTensor result =
        new_tensor(DType::kInt32, {static_cast<std::int64_t>(ids.size())}, context_.memory());
    if (!ids.empty()) {
      std::memcpy(result.bytes.data(), ids.data(), result.bytes.size());
    }
    return std::move(result.tensor);
  }

  void shorten(std::vector<std::int32_t>& ids) const {
    if (!options_.max_length || ids.size() <= static_cast<std::size_t>(*options_.max_length)) {
      return;
    }
    const std::int32_t last = ids.back();
    ids.resize(static_cast<std::size_t>(*options_.max_length));
    if (options_.tokenizer->special_tokens().end == last) {
      ids.back() = last;
    }
  }

  const TokenizeOptions& options_;
  CallContext& context_;
};

}  // namespace

void validate(const TokenizeOptions& options) {
  if (!options.tokenizer && !options.fields.empty()) {
    fail_options("the tokenize stage needs a tokenizer, such as open_sentencepiece(path)");
  }
  if (options.max_length && *options.max_length < 1) {
    fail_options(
        fmt::format("max_length of tokens is {}, expected at least 1", *options.max_length));
  }
  for (auto field = options.fields.begin(); field != options.fields.end(); ++field) {
    if (field->from.empty() || field->to.empty()) {
      fail_options(fmt::format("cannot store tokens of field '{}' in field '{}': both need a name",
                               printable(field->from), printable(field->to)));
    }
    if (std::any_of(options.fields.begin(), field,
                    [&](const TokenField& other) { return other.to == field->to; })) {
      fail_options(fmt::format("two fields have the target field '{}'", printable(field->to)));
    }
  }
}

MapFunction tokenize_fields(TokenizeOptions options) {
  validate(options);
  return [options = std::move(options)](Sample sample, CallContext& context) {
    const TextTokens tokens(options, context);
    for (const TokenField& field : options.fields) {
      const Value& text = sample.at(field.from);
      try {
        sample.set(field.to, tokens.of(text));
      } catch (const Error& error) {
        throw Error(error.code(),
                    fmt::format("tokens of field '{}': {}", printable(field.from), error.message()),
                    error.context());
      }
    }
    return sample;
  };
}

}  // namespace energon
