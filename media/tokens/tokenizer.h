// Tokenizers convert text to token ids and back: the interface, which you can implement for a
// tokenizer of your own, and SentencePiece.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/stage/call_context.h"
#include "io/bytes.h"

namespace energon {

// --- The interface ---

/// Ids of the special tokens; nullopt if the vocabulary has no such token.
struct SpecialTokens {
  std::optional<std::int32_t> begin = std::nullopt;  ///< BOS
  std::optional<std::int32_t> end = std::nullopt;    ///< EOS
  std::optional<std::int32_t> pad = std::nullopt;
  std::optional<std::int32_t> unknown = std::nullopt;
};

/// Immutable: const functions are thread-safe, and forked processes share the memory. The same text
/// must always give the same tokens, in every process.
class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  /// The token ids of a UTF-8 text, in [0, vocabulary_size()). Throws Error for a text that cannot
  /// be tokenized.
  virtual std::vector<std::int32_t> tokens(std::string_view text) const = 0;

  /// For training: as tokens(), but may draw one of several segmentations of the text. Draws from
  /// `rng` only.
  virtual std::vector<std::int32_t> drawn_tokens(std::string_view text, CallRng& /*rng*/) const {
    return tokens(text);
  }

  /// The text of `ids`. Throws Error (kInvalidArgument) for an id that is not in the vocabulary.
  virtual std::string text(std::span<const std::int32_t> ids) const = 0;

  virtual std::int32_t vocabulary_size() const = 0;
  virtual SpecialTokens special_tokens() const = 0;
};

// --- SentencePiece: .model files of type unigram, BPE, word and char ---

/// Draws one of the `candidates` best segmentations of a text, with probability proportional to
/// p^alpha. SentencePiece calls these nbest_size and alpha. Unigram models only.
struct SentencePieceSampling {
  int candidates = 64;  ///< 2 to 1024
  double alpha = 0.1;   ///< 0 to 100; 0 draws uniformly, large values mostly draw the best
};

struct SentencePieceOptions {
  bool add_begin = false;  ///< adds the BOS token before each text
  bool add_end = false;    ///< adds the EOS token after each text
  /// What drawn_tokens() does; unset means the same as tokens().
  std::optional<SentencePieceSampling> sampling = std::nullopt;
};

/// Larger models are refused with Error (kResourceExhausted), and so are longer texts.
inline constexpr std::uint64_t kMaxSentencePieceModelBytes = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kMaxTokenizedTextBytes = std::uint64_t{64} << 20;

/// Reads the model file `path` and applies its normalization rules. libsentencepiece trusts the
/// content of a model: as with a program, use only models whose origin you trust. Throws Error:
/// kNotFound and kIo if the file cannot be read; kCorruptData if the library does not accept it as
/// a model; kUnsupported in a build without libsentencepiece-dev, if the library cannot be loaded,
/// and for sampling with a model that is not unigram; kInvalidArgument for invalid options, such as
/// add_end for a model without that token.
std::shared_ptr<const Tokenizer> open_sentencepiece(const std::string& path,
                                                    const SentencePieceOptions& options = {});

/// As open_sentencepiece(), from the content of a model file.
std::shared_ptr<const Tokenizer> sentencepiece_tokenizer(ByteView model,
                                                         const SentencePieceOptions& options = {});

/// Whether this build has libsentencepiece.
bool has_sentencepiece();

}  // namespace energon
