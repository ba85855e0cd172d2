// Tokenizers of SentencePiece: files .model of type unigram, BPE, word and char.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "media/tokens/tokenizer.h"

namespace energon {

/// Draws one of the `candidates` best ways to divide a text, with probability proportional to
/// p^alpha, as SentencePiece's nbest_size and alpha. For unigram models.
struct SentencePieceSampling {
  int candidates = 64;  ///< 2 to 1024
  double alpha = 0.1;   ///< 0: all alike; large: mostly the best. 0 to 100
};

struct SentencePieceOptions {
  bool add_begin = false;  ///< puts the token of the begin (BOS) before each text
  bool add_end = false;    ///< puts the token of the end (EOS) after each text
  /// What drawn_tokens() does; absent: as tokens().
  std::optional<SentencePieceSampling> sampling = std::nullopt;
};

/// Larger models are refused with Error (kResourceExhausted), and so are longer texts.
inline constexpr std::uint64_t kMaxSentencePieceModelBytes = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kMaxTokenizedTextBytes = std::uint64_t{64} << 20;

/// Reads the model in the file `path`. Its normalization rules are applied. The library trusts the
/// content of a model: like a program, use only models whose origin you trust. Throws Error:
/// kNotFound and kIo if the file cannot be read; kCorruptData if the library does not accept it as
/// a model; kUnsupported in a build without libsentencepiece-dev, where its library cannot be
/// loaded, and for sampling with a model that is not unigram; kInvalidArgument for invalid options,
/// such as add_end for a model without that token.
std::shared_ptr<const Tokenizer> open_sentencepiece(const std::string& path,
                                                    const SentencePieceOptions& options = {});

/// The same with the content of such a file.
std::shared_ptr<const Tokenizer> sentencepiece_tokenizer(ByteView model,
                                                         const SentencePieceOptions& options = {});

/// Whether this build has libsentencepiece.
bool has_sentencepiece();

}  // namespace energon
