#include "io/pickle.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

// --- Opcodes ---

namespace {

enum class PickleOp : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersistentId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProtocol = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kNewObject = 0x81,
  kLong1 = 0x8A,
  kLong4 = 0x8B,
  kShortBinUnicode = 0x8C,
  kBinUnicode8 = 0x8D,
  kBinBytes8 = 0x8E,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

/// An integer of two's complement, lowest byte first.
PickleNode pickle_integer(ByteView bytes) {
  // Encoders may write more bytes than the number needs.
  std::size_t size = bytes.size();
  const bool is_negative = size > 0 && (bytes[size - 1] & std::byte{0x80}) != std::byte{0};
  const std::byte sign{static_cast<unsigned char>(is_negative ? 0xFF : 0)};
  while (size > sizeof(std::int64_t) && bytes[size - 1] == sign &&
         ((bytes[size - 2] ^ sign) & std::byte{0x80}) == std::byte{0}) {
    --size;
  }
  if (size > sizeof(std::int64_t)) {
    return PickleLargeInteger{std::string(as_text(bytes.first(size)))};
  }
  std::uint64_t bits = is_negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = size; i > 0; --i) {
    bits = bits << 8 | std::to_integer<std::uint64_t>(bytes[i - 1]);
  }
  return static_cast<std::int64_t>(bits);
}

/// One of the two arguments of kGlobal: up to a line feed, which is left out. Throws Error
/// (kCorruptData) if there is none.
std::string read_pickle_line(ByteCursor& cursor) {
  std::string result;
  while (true) {
    const auto byte = cursor.number<std::uint8_t, std::endian::little>("a name");
    if (byte == '\n') {
      return result;
    }
    result += static_cast<char>(byte);
  }
}

}  // namespace

// --- The stack ---

namespace {

/// The stack and the memo of the machine that Python's pickles are programs of. Holds objects by
/// their number. All functions throw Error (kCorruptData) where the pickle takes what is not there.
/// Not thread-safe.
class PickleStack {
 public:
  void push(PickleId id) { stack_.push_back(id); }
  PickleId top() const;
  PickleId pop() { return pop_last(1).front(); }
  /// In the order in which they were pushed.
  std::vector<PickleId> pop_last(std::size_t count);

  /// Marks the top. Nothing below is taken until pop_marked().
  void mark() { marks_.push_back(stack_.size()); }
  /// All above the last mark, and the mark.
  std::vector<PickleId> pop_marked();

  std::size_t memo_size() const { return memo_.size(); }
  /// Stores the top, which stays, as `entry` of the memo. New entries come one by one.
  void put(std::size_t entry);
  /// Pushes `entry` of the memo.
  void get(std::size_t entry);

 private:
  std::vector<PickleId> pop_from(std::size_t begin);
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::vector<PickleId> memo_;
};

[[noreturn]] void fail_stack(std::string message) {
  throw Error(ErrorCode::kCorruptData, std::move(message));
}

PickleId PickleStack::top() const {
  if (stack_.size() <= floor()) {
    fail_stack("the pickle takes more from its stack than there is");
  }
  return stack_.back();
}

std::vector<PickleId> PickleStack::pop_last(std::size_t count) {
  if (stack_.size() - floor() < count) {
    fail_stack("the pickle takes more from its stack than there is");
  }
  return pop_from(stack_.size() - count);
}

std::vector<PickleId> PickleStack::pop_marked() {
  if (marks_.empty()) {
    fail_stack("the pickle goes back to a mark that is not there");
  }
  const std::size_t begin = marks_.back();
  marks_.pop_back();
  return pop_from(begin);
}

void PickleStack::put(std::size_t entry) {
  if (entry > memo_.size()) {
    fail_stack(fmt::format("memo entry {} is written when there are {}", entry, memo_.size()));
  }
  if (entry == memo_.size()) {
    memo_.push_back(top());
  } else {
    memo_[entry] = top();
  }
}

void PickleStack::get(std::size_t entry) {
  if (entry >= memo_.size()) {
    fail_stack(fmt::format("memo entry {} is read when there are {}", entry, memo_.size()));
  }
  stack_.push_back(memo_[entry]);
}

std::vector<PickleId> PickleStack::pop_from(std::size_t begin) {
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(begin);
  std::vector<PickleId> result(first, stack_.end());
  stack_.erase(first, stack_.end());
  return result;
}

}  // namespace

// --- The machine ---

namespace {

class PickleMachine {
 public:
  PickleMachine(ByteView encoded, const PickleOptions& options)
      : cursor_(encoded, "the pickle"), options_(options) {}

  PickleGraph read() {
    try {
      read_protocol();
      while (step(next())) {
      }
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("{} (byte {} of {}, opcode {})", error.message(), op_at_,
                              options_.name, shown_op()),
                  error.context());
    }
    graph_.size = cursor_.position();
    return std::move(graph_);
  }

 private:
  PickleOp next() {
    op_at_ = cursor_.position();
    op_ = 0;
    op_ = number<std::uint8_t>("an opcode");
    return static_cast<PickleOp>(op_);
  }

  // As Python's pickletools shows it.
  std::string shown_op() const {
    return op_ > ' ' && op_ < 0x7F ? fmt::format("'{}'", static_cast<char>(op_))
                                   : fmt::format("0x{:02x}", op_);
  }

  template <class Number>
  Number number(const char* what) {
    return cursor_.number<Number, std::endian::little>(what);
  }

  void read_protocol() {
    if (next() != PickleOp::kProtocol) {
      throw Error(ErrorCode::kCorruptData,
                  "expected a pickle of protocol 2 to 5, which begins with the byte 0x80");
    }
    const int protocol = number<std::uint8_t>("the protocol");
    if (protocol < 2 || protocol > 5) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("expected a pickle of protocol 2 to 5, found protocol {}", protocol));
    }
  }

  // Carries out one instruction. Returns false after the last one.
  bool step(PickleOp op) {
    switch (op) {
      case PickleOp::kStop:
        graph_.root = stack_.pop();
        return false;
      case PickleOp::kFrame:
        number<std::uint64_t>("the length of a frame");
        return true;
      case PickleOp::kNone:
        return push(PickleNone());
      case PickleOp::kNewTrue:
        return push(true);
      case PickleOp::kNewFalse:
        return push(false);
      case PickleOp::kBinInt:
        return push(std::int64_t{number<std::int32_t>("a number")});
      case PickleOp::kBinInt1:
        return push(std::int64_t{number<std::uint8_t>("a number")});
      case PickleOp::kBinInt2:
        return push(std::int64_t{number<std::uint16_t>("a number")});
      case PickleOp::kLong1:
        return push_integer(number<std::uint8_t>("a length"));
      case PickleOp::kLong4:
        return push_integer(number<std::uint32_t>("a length"));
      case PickleOp::kBinFloat:
        return push(cursor_.number<double, std::endian::big>("a number"));
      case PickleOp::kShortBinUnicode:
        return push_text(number<std::uint8_t>("a length"));
      case PickleOp::kBinUnicode:
        return push_text(number<std::uint32_t>("a length"));
      case PickleOp::kBinUnicode8:
        return push_text(number<std::uint64_t>("a length"));
      case PickleOp::kShortBinBytes:
        return push_bytes(number<std::uint8_t>("a length"));
      case PickleOp::kBinBytes:
        return push_bytes(number<std::uint32_t>("a length"));
      case PickleOp::kBinBytes8:
      case PickleOp::kByteArray8:
        return push_bytes(number<std::uint64_t>("a length"));
      case PickleOp::kBinPut:
        return put(number<std::uint8_t>("a memo entry"));
      case PickleOp::kLongBinPut:
        return put(number<std::uint32_t>("a memo entry"));
      case PickleOp::kMemoize:
        return put(stack_.memo_size());
      case PickleOp::kBinGet:
        return get(number<std::uint8_t>("a memo entry"));
      case PickleOp::kLongBinGet:
        return get(number<std::uint32_t>("a memo entry"));
      case PickleOp::kMark:
        charge(sizeof(std::size_t));
        stack_.mark();
        return true;
      case PickleOp::kEmptyDict:
        return push(PickleDict());
      case PickleOp::kEmptyList:
        return push(PickleSequence{.is_list = true});
      case PickleOp::kEmptyTuple:
        return push(PickleSequence());
      case PickleOp::kTuple1:
        return push(PickleSequence{.items = stack_.pop_last(1)});
      case PickleOp::kTuple2:
        return push(PickleSequence{.items = stack_.pop_last(2)});
      case PickleOp::kTuple3:
        return push(PickleSequence{.items = stack_.pop_last(3)});
      case PickleOp::kTuple:
        return push(PickleSequence{.items = stack_.pop_marked()});
      case PickleOp::kAppend:
        return append(stack_.pop_last(1));
      case PickleOp::kAppends:
        return append(stack_.pop_marked());
      case PickleOp::kSetItem:
        return set_items(stack_.pop_last(2));
      case PickleOp::kSetItems:
        return set_items(stack_.pop_marked());
      case PickleOp::kGlobal: {
        std::string module = read_pickle_line(cursor_);
        return push_global(std::move(module), read_pickle_line(cursor_));
      }
      case PickleOp::kStackGlobal: {
        const std::vector<PickleId> names = stack_.pop_last(2);
        return push_global(text_of(names[0]), text_of(names[1]));
      }
      case PickleOp::kReduce:
      case PickleOp::kNewObject:
        return push_object(stack_.pop_last(2));
      case PickleOp::kBuild:
        return build(stack_.pop());
      case PickleOp::kBinPersistentId:
        return push(PicklePersistentId{stack_.pop()});
      case PickleOp::kProtocol:
        break;  // only at the beginning
    }
    throw Error(ErrorCode::kUnsupported,
                "the pickle has an opcode that Python does not write for simple objects");
  }

  bool push_integer(std::uint32_t size) {
    charge_present(size);
    return push(pickle_integer(cursor_.take(size, "a number")));
  }

  bool push_text(std::uint64_t size) {
    charge_present(size);
    return push(cursor_.text(size, "a text"));
  }

  bool push_bytes(std::uint64_t size) {
    charge_present(size);
    return push(copy_of(cursor_.take(size, "bytes")));
  }

  const std::string& text_of(PickleId id) const {
    const auto* const text = graph_.get<std::string>(id);
    if (text == nullptr) {
      throw Error(ErrorCode::kCorruptData, "the name of a function is not a string");
    }
    return *text;
  }

  bool push_global(std::string module, std::string name) {
    charge(module.size() + name.size());
    options_.check_name(module, name);
    return push(PickleGlobal{.module = std::move(module), .name = std::move(name)});
  }

  bool push_object(const std::vector<PickleId>& call) {
    if (graph_.get<PickleGlobal>(call[0]) == nullptr) {
      throw Error(ErrorCode::kUnsupported, "the pickle calls something that is not a function");
    }
    const auto* const arguments = graph_.get<PickleSequence>(call[1]);
    if (arguments == nullptr || arguments->is_list) {
      throw Error(ErrorCode::kCorruptData, "the arguments of a call are not a tuple");
    }
    return push(PickleObject{.callable = call[0], .arguments = call[1]});
  }

  bool put(std::size_t entry) {
    charge(sizeof(PickleId));
    stack_.put(entry);
    return true;
  }

  bool get(std::size_t entry) {
    charge(sizeof(PickleId));
    stack_.get(entry);
    return true;
  }

  bool append(const std::vector<PickleId>& items) {
    auto* const list = std::get_if<PickleSequence>(&graph_.nodes[stack_.top()]);
    if (list == nullptr || !list->is_list) {
      throw Error(ErrorCode::kUnsupported, "the pickle appends to something that is not a list");
    }
    list->items.insert(list->items.end(), items.begin(), items.end());
    return true;
  }

  bool set_items(const std::vector<PickleId>& pairs) {
    PickleNode& node = graph_.nodes[stack_.top()];
    PickleItems* items = nullptr;
    if (auto* const dict = std::get_if<PickleDict>(&node)) {
      items = &dict->items;
    } else if (auto* const object = std::get_if<PickleObject>(&node)) {
      items = &object->items;
    } else {
      throw Error(ErrorCode::kUnsupported, "the pickle sets items of something that is not a dict");
    }
    if (pairs.size() % 2 != 0) {
      throw Error(ErrorCode::kCorruptData, "a key of a dict has no value");
    }
    for (std::size_t i = 0; i < pairs.size(); i += 2) {
      items->emplace_back(pairs[i], pairs[i + 1]);
    }
    return true;
  }

  bool build(PickleId state) {
    auto* const object = std::get_if<PickleObject>(&graph_.nodes[stack_.top()]);
    if (object == nullptr) {
      throw Error(ErrorCode::kUnsupported,
                  "the pickle sets attributes of something that is not an object of a class");
    }
    object->state = state;
    return true;
  }

  bool push(PickleNode node) {
    charge(sizeof(PickleNode) + sizeof(std::size_t));
    graph_.nodes.push_back(std::move(node));
    graph_.offsets.push_back(op_at_);
    stack_.push(graph_.nodes.size() - 1);
    return true;
  }

  // A length that the data does not have is reported as such, not as a limit.
  void charge_present(std::uint64_t size) {
    if (size <= cursor_.left()) {
      charge(size);
    }
  }

  void charge(std::uint64_t bytes) {
    bytes_ += bytes;
    options_.limit.check("the pickle", bytes_);
  }

  ByteCursor cursor_;
  const PickleOptions& options_;
  std::size_t op_at_ = 0;
  std::uint8_t op_ = 0;
  PickleGraph graph_;
  PickleStack stack_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

PickleGraph read_pickle(ByteView encoded, const PickleOptions& options) {
  return PickleMachine(encoded, options).read();
}

}  // namespace energon
