#include "media/tokens/sentencepiece_shim.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sentencepiece::logging {
void SetMinLogLevel(int level);  // exported, though not declared in the library's headers
}

struct EnergonPieces {
  sentencepiece::SentencePieceProcessor processor;
};

namespace {

constexpr int kOnlyFatal = 3;

const char* keep(std::string message) {
  thread_local std::string kept;
  kept = std::move(message);
  return kept.c_str();
}

// Runs `function`, which returns a status of the library. Does not throw.
template <class Function>
const char* message_of(const Function& function) {
  try {
    const sentencepiece::util::Status status = function();
    return status.ok() ? nullptr : keep(status.error_message());
  } catch (const std::exception& error) {
    return keep(error.what());
  }
}

const char* load(const char* model, size_t size, EnergonPieces** pieces) {
  return message_of([&] {
    auto loaded = std::make_unique<EnergonPieces>();
    auto status = loaded->processor.LoadFromSerializedProto({model, size});
    if (status.ok()) {
      *pieces = loaded.release();
    }
    return status;
  });
}

void release(EnergonPieces* pieces) { delete pieces; }

int vocabulary_size(const EnergonPieces* pieces) { return pieces->processor.GetPieceSize(); }

void special_ids(const EnergonPieces* pieces, int* begin, int* end, int* pad, int* unknown) {
  *begin = pieces->processor.bos_id();
  *end = pieces->processor.eos_id();
  *pad = pieces->processor.pad_id();
  *unknown = pieces->processor.unk_id();
}

const char* encode(const EnergonPieces* pieces, const char* text, size_t size, EnergonTakeIds take,
                   void* receiver) {
  return message_of([&] {
    std::vector<int> ids;
    auto status = pieces->processor.Encode({text, size}, &ids);
    if (status.ok()) {
      take(receiver, ids.data(), ids.size(), 0);
    }
    return status;
  });
}

const char* encode_best(const EnergonPieces* pieces, const char* text, size_t size, int count,
                        EnergonTakeIds take, void* receiver) {
  return message_of([&] {
    sentencepiece::ImmutableNBestSentencePieceText best;
    auto status = pieces->processor.NBestEncode({text, size}, count, best.mutable_proto());
    if (!status.ok()) {
      return status;
    }
    std::vector<int> ids;
    for (size_t i = 0; i < best.nbests_size(); ++i) {
      const sentencepiece::ImmutableSentencePieceText candidate = best.nbests(static_cast<int>(i));
      ids.clear();
      for (size_t k = 0; k < candidate.pieces_size(); ++k) {
        ids.push_back(static_cast<int>(candidate.pieces(static_cast<int>(k)).id()));
      }
      take(receiver, ids.data(), ids.size(), candidate.score());
    }
    return status;
  });
}

const char* decode(const EnergonPieces* pieces, const int* ids, size_t size, EnergonTakeText take,
                   void* receiver) {
  return message_of([&] {
    std::string text;
    auto status = pieces->processor.Decode(std::vector<int>(ids, ids + size), &text);
    if (status.ok()) {
      take(receiver, text.data(), text.size());
    }
    return status;
  });
}

}  // namespace

__attribute__((visibility("default"))) const EnergonPieceCalls* energon_piece_calls() {
  // Messages of the library are either in its errors or irrelevant.
  sentencepiece::logging::SetMinLogLevel(kOnlyFatal);
  static const EnergonPieceCalls calls = {load,   release,     vocabulary_size, special_ids,
                                          encode, encode_best, decode};
  return &calls;
}
