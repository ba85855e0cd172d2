#include "media/data/pickle_reader.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "media/data/byte_cursor.h"
#include "media/data/text.h"
#include "media/data/torch_calls.h"
#include "media/data/value_builder.h"

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
  kLong1 = 0x8A,
  kShortBinUnicode = 0x8C,
  kBinUnicode8 = 0x8D,
  kBinBytes8 = 0x8E,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

/// The argument of kLong1: a length and that many bytes of two's complement, lowest first. Throws
/// Error: kCorruptData if it is cut, kUnsupported above 8 bytes.
std::int64_t read_pickle_long(ByteCursor& cursor) {
  const std::size_t size = cursor.number<std::uint8_t, std::endian::little>("a length");
  const ByteView bytes = cursor.take(size, "a number");
  if (size > sizeof(std::int64_t)) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a number of {} bytes is outside of int64 [-2^63, 2^63)", size));
  }
  const bool is_negative = size > 0 && (bytes[size - 1] & std::byte{0x80}) != std::byte{0};
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
  PickleMachine(ByteView encoded, const DecodeLimits& limits)
      : cursor_(encoded, "data.pkl"), limits_(limits) {}

  PickleGraph read() {
    try {
      if (next() != PickleOp::kProtocol) {
        throw Error(ErrorCode::kCorruptData, "no pickle of protocol 2 or later");
      }
      protocol();
      for (PickleOp op = next(); op != PickleOp::kStop; op = next()) {
        if (!constant(op) && !text_or_bytes(op) && !memo(op) && !container(op) && !filling(op) &&
            !call(op)) {
          throw Error(ErrorCode::kUnsupported,
                      fmt::format("the pickle has the opcode 0x{:02x}, which torch.save does not "
                                  "write",
                                  static_cast<unsigned>(op)));
        }
      }
      graph_.root = stack_.pop();
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{} (byte {} of data.pkl)", error.message(), op_at_),
                  error.context());
    }
    return std::move(graph_);
  }

 private:
  PickleOp next() {
    op_at_ = cursor_.position();
    return static_cast<PickleOp>(number<std::uint8_t>("an opcode"));
  }

  template <class Number>
  Number number(const char* what) {
    return cursor_.number<Number, std::endian::little>(what);
  }

  // The following do what `op` says, or return false if it is not theirs.

  bool constant(PickleOp op) {
    switch (op) {
      case PickleOp::kNone:
        return push(Null());
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
        return push(read_pickle_long(cursor_));
      case PickleOp::kBinFloat:
        return push(cursor_.number<double, std::endian::big>("a number"));
      default:
        return false;
    }
  }

  bool text_or_bytes(PickleOp op) {
    switch (op) {
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
        return push_bytes(number<std::uint64_t>("a length"));
      default:
        return false;
    }
  }

  bool memo(PickleOp op) {
    switch (op) {
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
      default:
        return false;
    }
  }

  bool container(PickleOp op) {
    switch (op) {
      case PickleOp::kMark:
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
      default:
        return false;
    }
  }

  bool filling(PickleOp op) {
    switch (op) {
      case PickleOp::kAppend:
        return append(stack_.pop_last(1));
      case PickleOp::kAppends:
        return append(stack_.pop_marked());
      case PickleOp::kSetItem:
        return set_items(stack_.pop_last(2));
      case PickleOp::kSetItems:
        return set_items(stack_.pop_marked());
      default:
        return false;
    }
  }

  bool call(PickleOp op) {
    switch (op) {
      case PickleOp::kGlobal: {
        const std::string module = read_pickle_line(cursor_);
        return push(torch_global(module, read_pickle_line(cursor_)));
      }
      case PickleOp::kStackGlobal: {
        const std::vector<PickleId> names = stack_.pop_last(2);
        return push(torch_global(text_of(names[0]), text_of(names[1])));
      }
      case PickleOp::kBinPersistentId:
        return push(torch_storage(graph_, stack_.pop()));
      case PickleOp::kReduce: {
        const std::vector<PickleId> both = stack_.pop_last(2);
        return push(torch_call(graph_, both[0], both[1]));
      }
      case PickleOp::kBuild:
        return build();
      case PickleOp::kFrame:
        number<std::uint64_t>("the length of a frame");
        return true;
      default:
        return false;
    }
  }

  void protocol() {
    const int protocol = number<std::uint8_t>("the protocol");
    if (protocol < 2 || protocol > 5) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("a pickle of protocol {}; readable are 2 to 5", protocol));
    }
  }

  bool push_text(std::uint64_t size) {
    const ByteView bytes = cursor_.take(size, "a text");
    charge(bytes.size());
    return push(utf8_text(bytes, "a text", cursor_.position() - bytes.size()));
  }

  bool push_bytes(std::uint64_t size) {
    const ByteView bytes = cursor_.take(size, "bytes");
    charge(bytes.size());
    return push(copy_of(bytes));
  }

  const std::string& text_of(PickleId id) const {
    const auto* const text = graph_.get<std::string>(id);
    if (text == nullptr) {
      throw Error(ErrorCode::kCorruptData, "the name of a function is no text");
    }
    return *text;
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
      throw Error(ErrorCode::kUnsupported, "the pickle appends to something that is no list");
    }
    list->items.insert(list->items.end(), items.begin(), items.end());
    return true;
  }

  bool set_items(const std::vector<PickleId>& items) {
    auto* const dict = std::get_if<PickleDict>(&graph_.nodes[stack_.top()]);
    if (dict == nullptr) {
      throw Error(ErrorCode::kUnsupported, "the pickle sets items of something that is no dict");
    }
    if (items.size() % 2 != 0) {
      throw Error(ErrorCode::kCorruptData, "a key of a dict has no value");
    }
    for (std::size_t i = 0; i < items.size(); i += 2) {
      dict->entries.emplace_back(items[i], items[i + 1]);
    }
    return true;
  }

  // torch.nn.Module.state_dict() puts the versions of modules into an attribute of its dict.
  bool build() {
    stack_.pop();
    const auto* const dict = graph_.get<PickleDict>(stack_.top());
    if (dict == nullptr || !dict->is_ordered_dict) {
      throw Error(ErrorCode::kUnsupported,
                  "the pickle sets attributes of something that is no OrderedDict");
    }
    return true;
  }

  bool push(PickleNode node) {
    charge(sizeof(PickleNode));
    graph_.nodes.push_back(std::move(node));
    stack_.push(graph_.nodes.size() - 1);
    return true;
  }

  void charge(std::uint64_t bytes) {
    bytes_ += bytes;
    check_decoded_bytes("the pickle", bytes_, limits_);
  }

  ByteCursor cursor_;
  const DecodeLimits& limits_;
  std::size_t op_at_ = 0;
  PickleGraph graph_;
  PickleStack stack_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

PickleGraph read_pickle(ByteView encoded, const DecodeLimits& limits) {
  return PickleMachine(encoded, limits).read();
}

}  // namespace energon
