#include "media/tokens/model_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "media/tokens/sentencepiece.h"

namespace energon {

// --- Fields of Protocol Buffers ---

std::optional<ProtoField> ProtoFields::next() {
  if (position_ == message_.size()) {
    return std::nullopt;
  }
  ProtoField field{.offset = position_};
  const std::uint64_t tag = varint();
  const std::uint64_t number = tag >> 3;
  constexpr std::uint64_t kMaxNumber = (std::uint64_t{1} << 29) - 1;
  if (number < 1 || number > kMaxNumber) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("field number {} at byte {} of a message is not in [1, {}]", number,
                            field.offset, kMaxNumber));
  }
  field.number = static_cast<std::uint32_t>(number);
  field.type = static_cast<WireType>(tag & 7);
  switch (field.type) {
    case WireType::kVarint:
      field.integer = varint();
      return field;
    case WireType::kFixed64:
      field.integer = fixed(8);
      return field;
    case WireType::kBytes:
      field.bytes = take(varint());
      return field;
    case WireType::kFixed32:
      field.integer = fixed(4);
      return field;
  }
  throw Error(ErrorCode::kCorruptData,
              fmt::format("field {} at byte {} of a message has wire type {}, which is none of "
                          "values",
                          field.number, field.offset, tag & 7));
}

std::uint64_t ProtoFields::varint() {
  constexpr int kMostBits = 64;
  std::uint64_t value = 0;
  for (int shift = 0; shift < kMostBits; shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(take(1)[0]);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("the integer before byte {} of a message has more than 64 bits", position_));
}

// Little-endian.
std::uint64_t ProtoFields::fixed(std::size_t size) {
  const ByteView bytes = take(size);
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return value;
}

ByteView ProtoFields::take(std::uint64_t size) {
  const std::size_t left = message_.size() - position_;
  if (size > left) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("a message ends at byte {}, a value at byte {} has {} bytes",
                            message_.size(), position_, size));
  }
  const ByteView bytes = message_.subspan(position_, static_cast<std::size_t>(size));
  position_ += bytes.size();
  return bytes;
}

// --- The tables of normalisation ---

namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr std::size_t kUnitBytes = sizeof(std::uint32_t);
constexpr int kMaxPrefixes = 32;
constexpr std::size_t kLabels = 256;

// A unit of the double array, as Darts-clone packs it.
struct DartsUnit {
  std::uint32_t bits;

  bool has_leaf() const { return (bits >> 8 & 1) != 0; }
  std::uint32_t value() const { return bits & 0x7FFF'FFFF; }
  /// Equal to a byte for the children of that byte; never for leaves.
  std::uint32_t label() const { return bits & 0x8000'00FF; }
  std::size_t offset() const {
    return static_cast<std::size_t>(bits >> 10) << ((bits & 0x200) >> 6);
  }
};

// Walks once over all nodes that a text can lead to.
class DartsWalk {
 public:
  DartsWalk(ByteView array, ByteView texts)
      : array_(array), texts_(texts), prefixes_(array.size() / kUnitBytes, kNotSeen) {}

  void run() {
    enter(0);
    while (!path_.empty()) {
      Step& step = path_.back();
      if (step.label == kLabels) {
        leave();
        continue;
      }
      const std::size_t label = step.label++;
      const std::size_t child = step.base ^ label;
      if (unit(child).label() != label) {
        continue;
      }
      if (prefixes_[child] == kNotSeen) {
        enter(child);
      } else {
        check_no_cycle(child);
        step.prefixes = std::max(step.prefixes, prefixes_[child]);
      }
    }
  }

 private:
  static constexpr std::uint8_t kNotSeen = 255;
  static constexpr std::uint8_t kOnPath = 254;

  struct Step {
    std::size_t node;
    std::size_t base;           // of its children
    std::size_t label = 0;      // of the next child
    std::uint8_t prefixes = 0;  // most entries that end behind the node on one path
  };

  DartsUnit unit(std::size_t i) const {
    DartsUnit result{};
    std::memcpy(&result.bits, array_.data() + i * kUnitBytes, kUnitBytes);
    return result;
  }

  void enter(std::size_t node) {
    const DartsUnit own = unit(node);
    const std::size_t base = node ^ own.offset();
    if ((base | (kLabels - 1)) >= prefixes_.size()) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("unit {} of the table of normalisation leads to unit {} of {}", node,
                              base | (kLabels - 1), prefixes_.size()));
    }
    if (own.has_leaf() && unit(base).value() >= texts_.size()) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("an entry of the table of normalisation has its text at byte {} of {}",
                      unit(base).value(), texts_.size()));
    }
    prefixes_[node] = kOnPath;
    path_.push_back({.node = node, .base = base});
  }

  void leave() {
    const Step step = path_.back();
    path_.pop_back();
    const int prefixes = step.prefixes + (unit(step.node).has_leaf() ? 1 : 0);
    if (prefixes > kMaxPrefixes) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("more than {} entries of the table of normalisation begin with one "
                              "another",
                              kMaxPrefixes));
    }
    prefixes_[step.node] = static_cast<std::uint8_t>(prefixes);
    if (!path_.empty()) {
      path_.back().prefixes = std::max(path_.back().prefixes, prefixes_[step.node]);
    }
  }

  void check_no_cycle(std::size_t node) const {
    if (prefixes_[node] == kOnPath) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the table of normalisation has a cycle at unit {}", node));
    }
  }

  const ByteView array_;
  const ByteView texts_;
  // Of each node: kNotSeen, kOnPath, or the most entries that end in it and behind it on one path.
  std::vector<std::uint8_t> prefixes_;
  std::vector<Step> path_;
};

}  // namespace

void check_charsmap(ByteView table) {
  static_assert(std::endian::native == std::endian::little);
  if (table.empty()) {
    return;
  }
  if (table.size() > kMaxBytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("the table of normalisation has {} bytes, the limit is {}",
                            table.size(), kMaxBytes));
  }
  std::uint32_t array_bytes = 0;
  if (table.size() >= kUnitBytes) {
    std::memcpy(&array_bytes, table.data(), kUnitBytes);
  }
  if (table.size() < kUnitBytes || array_bytes > table.size() - kUnitBytes ||
      array_bytes % kUnitBytes != 0 || array_bytes == 0) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the table of normalisation has {} bytes and says that {} of them are "
                            "its array",
                            table.size(), array_bytes));
  }
  const ByteView texts = table.subspan(kUnitBytes + array_bytes);
  if (texts.empty() || texts.back() != std::byte{0}) {
    throw Error(ErrorCode::kCorruptData, "the texts of a table of normalisation end without a 0");
  }
  DartsWalk(table.subspan(kUnitBytes, array_bytes), texts).run();
}

// --- The model ---

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
