#include "media/tokens/sentencepiece.h"

#include "io/error.h"
#include "io/file.h"

namespace energon {

std::shared_ptr<const Tokenizer> open_sentencepiece(const std::string& path,
                                                    const SentencePieceOptions& options) {
  const std::string model = read_file(path, kMaxSentencePieceModelBytes);
  try {
    return sentencepiece_tokenizer(as_bytes(model), options);
  } catch (Error& error) {
    error.with({.path = path});
    throw;
  }
}

}  // namespace energon
