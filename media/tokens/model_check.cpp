#include "media/tokens/model_check.h"

#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "media/tokens/charsmap.h"
#include "media/tokens/proto_fields.h"
#include "media/tokens/sentencepiece.h"

namespace energon {
namespace {

// Numbers of fields and enums in sentencepiece_model.proto.
constexpr std::uint32_t kPieces = 1;
constexpr std::uint32_t kTrainerSpec = 2;
constexpr std::uint32_t kNormalizerSpec = 3;
constexpr std::uint32_t kDenormalizerSpec = 5;
constexpr std::uint32_t kPieceText = 1;
constexpr std::uint32_t kPieceScore = 2;
constexpr std::uint32_t kPieceType = 3;
constexpr std::uint64_t kUserDefined = 4;
constexpr std::uint32_t kModelType = 3;
constexpr std::uint32_t kCharsmap = 2;

constexpr std::size_t kMaxPieceBytes = 8000;
constexpr std::size_t kMaxSymbolsInOneAnother = 64;

[[noreturn]] void fail_model(const std::string& what) {
  throw Error(ErrorCode::kCorruptData, what);
}

// The fields of a message that is a field.
ProtoFields fields_of(const ProtoField& field, std::string_view what) {
  if (field.type != WireType::kBytes) {
    fail_model(fmt::format("{} at byte {} is no message", what, field.offset));
  }
  return ProtoFields(field.bytes);
}

class ModelCheck {
 public:
  PieceModel run(ByteView model) {
    ProtoFields fields(model);
    while (const auto field = fields.next()) {
      switch (field->number) {
        case kPieces:
          check_piece(fields_of(*field, "a piece"));
          break;
        case kTrainerSpec:
          read_trainer(fields_of(*field, "the trainer's options"));
          break;
        case kNormalizerSpec:
        case kDenormalizerSpec:
          check_normalizer(fields_of(*field, "the rules of normalisation"));
          break;
        default:
          break;
      }
    }
    if (pieces_.empty()) {
      fail_model("the model has no pieces");
    }
    check_symbols();
    return type_;
  }

 private:
  void check_piece(ProtoFields fields) {
    std::string_view text;
    std::uint64_t type = 1;
    while (const auto field = fields.next()) {
      if (field->number == kPieceText && field->type == WireType::kBytes) {
        text = as_text(field->bytes);
      } else if (field->number == kPieceScore && field->type == WireType::kFixed32) {
        check_score(std::bit_cast<float>(static_cast<std::uint32_t>(field->integer)));
      } else if (field->number == kPieceType && field->type == WireType::kVarint) {
        type = field->integer;
      }
    }
    if (text.empty() || text.size() >= kMaxPieceBytes || text.find('\0') != text.npos) {
      fail_model(fmt::format(
          "piece {} has {} bytes{}; it must have 1 to {} and no zero", pieces_.size(), text.size(),
          text.find('\0') != text.npos ? " with a zero" : "", kMaxPieceBytes - 1));
    }
    if (!pieces_.insert(text).second) {
      fail_model(
          fmt::format("piece {} is '{}', as one before it", pieces_.size(), printable(text)));
    }
    if (type == kUserDefined) {
      symbols_.insert(text);
    }
  }

  void check_score(float score) const {
    constexpr float kMaxScore = 1e30F;
    if (!(std::abs(score) <= kMaxScore)) {
      fail_model(fmt::format("piece {} has the score {}", pieces_.size(), score));
    }
  }

  void read_trainer(ProtoFields fields) {
    while (const auto field = fields.next()) {
      if (field->number == kModelType && field->type == WireType::kVarint) {
        if (field->integer < static_cast<std::uint64_t>(PieceModel::kUnigram) ||
            field->integer > static_cast<std::uint64_t>(PieceModel::kChar)) {
          fail_model(
              fmt::format("the model has the type {}; types are 1 (unigram), 2 (BPE), 3 "
                          "(word) and 4 (char)",
                          field->integer));
        }
        type_ = static_cast<PieceModel>(field->integer);
      }
    }
  }

  static void check_normalizer(ProtoFields fields) {
    while (const auto field = fields.next()) {
      if (field->number == kCharsmap && field->type == WireType::kBytes) {
        check_charsmap(field->bytes);
      }
    }
  }

  // In their order, what a symbol begins with comes before it.
  void check_symbols() const {
    std::vector<std::string_view> prefixes;
    for (const std::string_view symbol : symbols_) {
      while (!prefixes.empty() && !symbol.starts_with(prefixes.back())) {
        prefixes.pop_back();
      }
      prefixes.push_back(symbol);
      if (prefixes.size() > kMaxSymbolsInOneAnother) {
        fail_model(
            fmt::format("more than {} symbols of the user begin with one another, the last "
                        "is '{}'",
                        kMaxSymbolsInOneAnother, printable(symbol)));
      }
    }
  }

  std::unordered_set<std::string_view> pieces_;
  std::set<std::string_view> symbols_;  // of the user
  PieceModel type_ = PieceModel::kUnigram;
};

}  // namespace

PieceModel check_piece_model(ByteView model) {
  if (model.size() > kMaxSentencePieceModelBytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("the model has {} bytes, the limit is {}", model.size(),
                            kMaxSentencePieceModelBytes));
  }
  return ModelCheck().run(model);
}

}  // namespace energon
