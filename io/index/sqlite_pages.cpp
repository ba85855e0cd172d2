#include "io/index/sqlite_pages.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "io/error.h"
#include "io/file.h"

namespace energon {

// --- Rows ---

namespace {

// SQLite's codes of column types.
constexpr std::uint64_t kTypeZero = 8;
constexpr std::uint64_t kTypeOne = 9;
constexpr std::uint64_t kTypeText = 13;  // plus twice the size

struct IntegerForm {
  std::uint64_t type;
  std::size_t bytes;
};

IntegerForm form_of(std::int64_t value) {
  constexpr std::array<IntegerForm, 6> kForms = {{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 6}, {6, 8}}};
  const auto magnitude = static_cast<std::uint64_t>(value < 0 ? ~value : value);
  for (const IntegerForm& form : kForms) {
    if (magnitude >> (form.bytes * 8 - 1) == 0) {
      return form;
    }
  }
  return kForms.back();
}

}  // namespace

std::size_t put_varint(std::byte* out, std::uint64_t value) {
  if (value < 0x80) {
    out[0] = static_cast<std::byte>(value);
    return 1;
  }
  if (value >> 56 != 0) {  // nine bytes, the last with all eight bits
    out[8] = static_cast<std::byte>(value);
    value >>= 8;
    for (std::size_t i = 8; i-- > 0; value >>= 7) {
      out[i] = static_cast<std::byte>(value & 0x7F) | std::byte{0x80};
    }
    return kMaxVarintBytes;
  }
  std::size_t size = 1;
  while (value >> (7 * size) != 0) {
    ++size;
  }
  for (std::size_t i = size; i-- > 0; value >>= 7) {
    out[i] = static_cast<std::byte>(value & 0x7F) | (i + 1 < size ? std::byte{0x80} : std::byte{0});
  }
  return size;
}

std::size_t varint_size(const std::byte* in) {
  std::size_t size = 1;
  while (size < kMaxVarintBytes && (in[size - 1] & std::byte{0x80}) != std::byte{0}) {
    ++size;
  }
  return size;
}

void EncodedCells::add(ByteView number, ByteView row) {
  std::byte size[kMaxVarintBytes];
  const std::size_t size_bytes = put_varint(size, row.size());
  const std::size_t begin = bytes_.size();
  const std::size_t cell_size = size_bytes + number.size() + row.size();
  if (bytes_.capacity() - begin < cell_size) {
    bytes_.reserve(std::max(2 * bytes_.capacity(), begin + cell_size));
  }
  bytes_.insert(bytes_.end(), size, size + size_bytes);
  bytes_.insert(bytes_.end(), number.begin(), number.end());
  bytes_.insert(bytes_.end(), row.begin(), row.end());
  sizes_.push_back(static_cast<std::uint32_t>(cell_size));
}

void EncodedCells::clear() {
  bytes_.clear();
  sizes_.clear();
}

void RowEncoder::make_room(std::size_t bytes) {
  if (bytes_.size() - values_end_ < bytes) {
    bytes_.resize(values_end_ + 2 * bytes);
  }
}

void RowEncoder::add(std::int64_t value) {
  if (value == 0 || value == 1) {
    types_size_ += put_varint(types_ + types_size_, value == 0 ? kTypeZero : kTypeOne);
    return;
  }
  const IntegerForm form = form_of(value);
  types_size_ += put_varint(types_ + types_size_, form.type);
  make_room(sizeof(value));
  std::byte* const out = bytes_.data() + values_end_;
  for (std::size_t i = 0; i < form.bytes; ++i) {
    out[i] = static_cast<std::byte>(value >> (8 * (form.bytes - 1 - i)));
  }
  values_end_ += form.bytes;
}

void RowEncoder::add(std::string_view text) {
  types_size_ += put_varint(types_ + types_size_, kTypeText + 2 * text.size());
  make_room(text.size());
  if (!text.empty()) {
    std::memcpy(bytes_.data() + values_end_, text.data(), text.size());
  }
  values_end_ += text.size();
}

void RowEncoder::finish_row(std::int64_t row_number, EncodedCells& cells) {
  std::byte number[kMaxVarintBytes];
  const std::size_t size = put_varint(number, static_cast<std::uint64_t>(row_number));
  cells.add({number, size}, take_row());
}

void RowEncoder::finish_key(EncodedCells& cells) { cells.add({}, take_row()); }

// Valid until the next column is added.
ByteView RowEncoder::take_row() {
  // The header size includes itself; it is below 128, so one byte.
  const std::size_t header_size = 1 + types_size_;
  std::byte* const begin = bytes_.data() + kHeaderRoom - header_size;
  begin[0] = static_cast<std::byte>(header_size);
  std::memcpy(begin + 1, types_, types_size_);
  const ByteView row(begin, header_size + values_end_ - kHeaderRoom);
  values_end_ = kHeaderRoom;
  types_size_ = 0;
  return row;
}

// --- Numbers of pages ---
//
// Constants of SQLite's B-tree pages.
//
// https://www.sqlite.org/fileformat2.html, "B-tree Pages" and "Cell Payload Overflow Pages".

namespace {

// First byte of a page.
constexpr std::byte kInnerIndex{2};
constexpr std::byte kInnerTable{5};
constexpr std::byte kLeafIndex{10};
constexpr std::byte kLeafTable{13};

constexpr std::size_t kLeafHeaderBytes = 8;
constexpr std::size_t kInnerHeaderBytes = 12;  // includes the last child
constexpr std::size_t kPointerBytes = 2;       // to a cell
constexpr std::size_t kChildBytes = 4;
constexpr std::size_t kOverflowPointerBytes = 4;

// The page stores the beginning of a longer row, a chain of overflow pages the rest. The sizes come
// from the file format; they let four keys fit into a page.
constexpr std::size_t kMostInTable = kBtreePageBytes - 35;
constexpr std::size_t kMostInIndex = (kBtreePageBytes - 12) * 64 / 255 - 23;
constexpr std::size_t kLeastInPage = (kBtreePageBytes - 12) * 32 / 255 - 23;
constexpr std::size_t kOverflowBytes = kBtreePageBytes - kOverflowPointerBytes;

// How many bytes of a row of `size` bytes its page stores; `most` is one of the above.
constexpr std::size_t bytes_in_page(std::size_t size, std::size_t most) {
  if (size <= most) {
    return size;
  }
  const std::size_t left = kLeastInPage + (size - kLeastInPage) % kOverflowBytes;
  return left <= most ? left : kLeastInPage;
}

// Integers are big-endian.
void put_be16(std::byte* out, std::size_t value) {
  out[0] = static_cast<std::byte>(value >> 8);
  out[1] = static_cast<std::byte>(value);
}
void put_be32(std::byte* out, std::uint32_t value) {
  put_be16(out, value >> 16);
  put_be16(out + 2, value & 0xFFFF);
}
std::size_t get_be16(const std::byte* in) {
  return static_cast<std::size_t>(in[0]) << 8 | static_cast<std::size_t>(in[1]);
}
std::uint32_t get_be32(const std::byte* in) {
  return static_cast<std::uint32_t>(get_be16(in)) << 16 |
         static_cast<std::uint32_t>(get_be16(in + 2));
}

// --- Pages of a file ---

constexpr std::size_t kPendingBytes = std::size_t{1} << 20;
constexpr std::uint64_t kPageCountOffset = 28;  // in the file's header
// SQLite locks bytes at 1 GiB, so it never uses the page that contains them.
constexpr std::uint32_t kLockPage = (std::uint32_t{1} << 30) / kBtreePageBytes + 1;
constexpr std::uint32_t kMaxPages = std::numeric_limits<std::uint32_t>::max() - 1;

std::uint64_t offset_of_page(std::uint32_t number) {
  return std::uint64_t{number - 1} * kBtreePageBytes;
}

}  // namespace

BtreeFile::BtreeFile(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDWR | O_CLOEXEC)) {
  const off_t size = fd_.valid() ? ::lseek(fd_.get(), 0, SEEK_END) : -1;
  if (size < 0) {
    throw io_error("cannot open the index database", errno, {.path = path_});
  }
  page_count_ = static_cast<std::uint32_t>(static_cast<std::uint64_t>(size) / kBtreePageBytes);
  pending_.reserve(kPendingBytes);
}

std::uint32_t BtreeFile::number_after(std::uint32_t number) {
  return number + (number + 1 == kLockPage ? 2 : 1);
}

std::uint32_t BtreeFile::append(const Page& page) {
  const std::uint32_t number = next_number();
  if (number > kMaxPages) {
    throw Error(ErrorCode::kResourceExhausted, "the index database has too many pages for SQLite",
                {.path = path_});
  }
  if (number != page_count_ + 1) {
    pending_.resize(pending_.size() + kBtreePageBytes);  // the page of the lock bytes
  }
  pending_.insert(pending_.end(), page.begin(), page.end());
  page_count_ = number;
  if (pending_.size() >= kPendingBytes) {
    flush();
  }
  return number;
}

void BtreeFile::replace(std::uint32_t number, const Page& page) {
  flush();
  go_to(offset_of_page(number));
  write_all(fd_.get(), page, "cannot write the index database", {.path = path_});
  go_to(offset_of_page(page_count_ + 1));
}

void BtreeFile::finish() {
  flush();
  std::array<std::byte, sizeof(std::uint32_t)> count{};
  put_be32(count.data(), page_count_);
  go_to(kPageCountOffset);
  write_all(fd_.get(), count, "cannot write the index database", {.path = path_});
  if (::fsync(fd_.get()) != 0) {
    throw io_error("cannot sync file", errno, {.path = path_});
  }
}

void BtreeFile::go_to(std::uint64_t offset) {
  if (::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
    throw io_error("cannot write the index database", errno, {.path = path_});
  }
}

void BtreeFile::flush() {
  write_all(fd_.get(), pending_, "cannot write the index database", {.path = path_});
  pending_.clear();
}

// --- Building a tree ---

namespace {

// A page that is being filled: pointers grow from its header, cells from its end.
class CellPage {
 public:
  void reset(std::byte type) {
    type_ = type;
    header_bytes_ = is_leaf() ? kLeafHeaderBytes : kInnerHeaderBytes;
    cells_ = 0;
    content_begin_ = kBtreePageBytes;
  }

  std::size_t cells() const { return cells_; }

  bool fits(std::size_t cell_bytes) const {
    const std::size_t bytes = (is_leaf() ? 0 : kChildBytes) + cell_bytes;
    return pointers_end() + kPointerBytes + bytes <= content_begin_;
  }

  // `child` only in inner pages.
  void append(std::uint32_t child, ByteView cell) {
    content_begin_ -= cell.size();
    std::memcpy(bytes_.data() + content_begin_, cell.data(), cell.size());
    if (!is_leaf()) {
      content_begin_ -= kChildBytes;
      put_be32(bytes_.data() + content_begin_, child);
    }
    put_be16(bytes_.data() + pointers_end(), content_begin_);
    ++cells_;
  }

  // The bytes of the last cell and of all after it. Requires: a leaf with a cell.
  ByteView last() const { return ByteView(bytes_).subspan(content_begin_); }

  // Removes the last cell; returns its child and copies the rest of it to `cell`.
  std::uint32_t take_last(std::vector<std::byte>& cell) {
    --cells_;
    const std::size_t end = cells_ == 0 ? kBtreePageBytes : begin_of(cells_ - 1);
    std::uint32_t child = 0;
    std::size_t begin = content_begin_;
    if (!is_leaf()) {
      child = get_be32(bytes_.data() + begin);
      begin += kChildBytes;
    }
    cell.assign(bytes_.begin() + static_cast<std::ptrdiff_t>(begin),
                bytes_.begin() + static_cast<std::ptrdiff_t>(end));
    content_begin_ = end;
    return child;
  }

  // The finished page. `last_child` only for inner pages.
  const Page& seal(std::uint32_t last_child) {
    bytes_[0] = type_;
    put_be16(bytes_.data() + 1, 0);  // no free block
    put_be16(bytes_.data() + 3, cells_);
    put_be16(bytes_.data() + 5, content_begin_);
    bytes_[7] = std::byte{0};  // no free bytes between cells
    if (!is_leaf()) {
      put_be32(bytes_.data() + kLeafHeaderBytes, last_child);
    }
    std::fill(bytes_.begin() + static_cast<std::ptrdiff_t>(pointers_end()),
              bytes_.begin() + static_cast<std::ptrdiff_t>(content_begin_), std::byte{0});
    return bytes_;
  }

 private:
  bool is_leaf() const { return type_ == kLeafIndex || type_ == kLeafTable; }
  std::size_t pointers_end() const { return header_bytes_ + kPointerBytes * cells_; }
  std::size_t begin_of(std::size_t cell) const {
    return get_be16(bytes_.data() + header_bytes_ + kPointerBytes * cell);
  }

  Page bytes_ = {};
  std::byte type_{};
  std::size_t header_bytes_ = 0;
  std::size_t cells_ = 0;
  std::size_t content_begin_ = kBtreePageBytes;
};

}  // namespace

// The pages of one level; those before `full` are already written.
//
// A full index page ends with a divider, which moves to the level above. The divider waits here
// until `open` has a cell: only the root may be empty, so if no cell follows, the divider goes to
// `open`, and the last cell of `full` becomes the divider.
struct BtreeBuilder::Level {
  explicit Level(std::byte type) : type(type) {
    open.reset(type);
    full.reset(type);
  }

  const std::byte type;
  CellPage open;
  CellPage full;
  bool has_full = false;
  std::uint32_t full_last_child = 0;
  std::vector<std::byte> divider;  // follows `full`
};

BtreeBuilder::BtreeBuilder(BtreeFile& file, Kind kind, std::uint32_t root)
    : file_(file), kind_(kind), root_(root) {
  level_at(0);
}

BtreeBuilder::~BtreeBuilder() = default;

BtreeBuilder::Level& BtreeBuilder::level_at(std::size_t level) {
  if (level == levels_.size()) {
    const bool is_table = kind_ == Kind::kTable;
    levels_.push_back(std::make_unique<Level>(level == 0 ? (is_table ? kLeafTable : kLeafIndex)
                                                         : (is_table ? kInnerTable : kInnerIndex)));
  }
  return *levels_[level];
}

void BtreeBuilder::add(ByteView cell) {
  cell = split_if_long(cell);
  if (kind_ == Kind::kIndex) {
    add_divider(0, 0, cell);
    return;
  }
  Level& leaves = *levels_[0];
  if (!leaves.open.fits(cell.size())) {
    // The number of the last row, which also stays in its leaf.
    std::array<std::byte, kMaxVarintBytes> divider{};
    const ByteView last = leaves.open.last();
    const std::size_t begin = varint_size(last.data());
    const std::size_t size = varint_size(last.data() + begin);
    std::copy_n(last.begin() + static_cast<std::ptrdiff_t>(begin), size, divider.begin());
    const std::uint32_t number = file_.append(leaves.open.seal(0));
    leaves.open.reset(leaves.type);
    add_divider(1, number, ByteView(divider).first(size));
  }
  leaves.open.append(0, cell);
}

// Valid until the next call.
ByteView BtreeBuilder::split_if_long(ByteView cell) {
  const std::size_t most = kind_ == Kind::kTable ? kMostInTable : kMostInIndex;
  if (cell.size() <= most) {
    return cell;
  }
  std::size_t head = varint_size(cell.data());
  head += kind_ == Kind::kTable ? varint_size(cell.data() + head) : 0;
  const std::size_t inside = head + bytes_in_page(cell.size() - head, most);
  if (inside == cell.size()) {
    return cell;
  }
  short_cell_.assign(cell.begin(), cell.begin() + static_cast<std::ptrdiff_t>(inside));
  short_cell_.resize(inside + sizeof(std::uint32_t));
  put_be32(short_cell_.data() + inside, write_overflow(cell.subspan(inside)));
  return short_cell_;
}

// Returns the first page of the chain.
std::uint32_t BtreeBuilder::write_overflow(ByteView rest) {
  const std::uint32_t first = file_.next_number();
  while (!rest.empty()) {
    const std::size_t count = std::min(rest.size(), kOverflowBytes);
    Page page = {};
    std::memcpy(page.data() + kBtreePageBytes - kOverflowBytes, rest.data(), count);
    rest = rest.subspan(count);
    if (!rest.empty()) {
      put_be32(page.data(), file_.number_after_next());
    }
    file_.append(page);
  }
  return first;
}

// Adds a cell to a level; `child` is the page before it in the level below.
void BtreeBuilder::add_divider(std::size_t level, std::uint32_t child, ByteView cell) {
  Level& here = level_at(level);
  if (here.open.fits(cell.size())) {
    if (here.has_full) {
      write_full_page(level);
    }
    here.open.append(child, cell);
    return;
  }
  std::swap(here.full, here.open);
  here.open.reset(here.type);
  here.has_full = true;
  here.full_last_child = child;
  here.divider.assign(cell.begin(), cell.end());
}

void BtreeBuilder::write_full_page(std::size_t level) {
  Level& here = *levels_[level];
  here.has_full = false;
  const std::uint32_t number = file_.append(here.full.seal(here.full_last_child));
  add_divider(level + 1, number, here.divider);
}

void BtreeBuilder::finish() { finish_level(0, 0); }

void BtreeBuilder::finish_level(std::size_t level, std::uint32_t last_child) {
  Level& here = *levels_[level];
  if (here.has_full) {
    if (here.open.cells() == 0) {
      std::vector<std::byte> last;
      const std::uint32_t before_last = here.full.take_last(last);
      here.open.append(here.full_last_child, here.divider);
      here.full_last_child = before_last;
      here.divider = std::move(last);
    }
    write_full_page(level);
  }
  const Page& page = here.open.seal(last_child);
  if (level + 1 == levels_.size()) {
    file_.replace(root_, page);
  } else {
    finish_level(level + 1, file_.append(page));
  }
}

}  // namespace energon
