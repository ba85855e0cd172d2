// For builds without libsentencepiece.

#include "io/error.h"
#include "media/tokens/sentencepiece.h"

namespace energon {

std::shared_ptr<const Tokenizer> sentencepiece_tokenizer(ByteView /*model*/,
                                                         const SentencePieceOptions& /*options*/) {
  throw Error(ErrorCode::kUnsupported,
              "this build has no tokenizers of SentencePiece (libsentencepiece-dev)");
}

bool has_sentencepiece() { return false; }

}  // namespace energon
