#include "io/index/btree_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "io/index/row_encoder.h"

namespace energon {
namespace {

// First byte of a page.
constexpr std::byte kInnerIndex{2};
constexpr std::byte kInnerTable{5};
constexpr std::byte kLeafIndex{10};
constexpr std::byte kLeafTable{13};

constexpr std::size_t kLeafHeaderBytes = 8;
constexpr std::size_t kInnerHeaderBytes = 12;  // with the last child
constexpr std::size_t kPointerBytes = 2;       // to a cell
constexpr std::size_t kChildBytes = 4;

// A longer row keeps its beginning in the page, the rest in a chain of overflow pages. These sizes
// are given by the format; they let four keys fit into a page.
constexpr std::size_t kMostInTable = kPageBytes - 35;
constexpr std::size_t kMostInIndex = (kPageBytes - 12) * 64 / 255 - 23;
constexpr std::size_t kLeastInPage = (kPageBytes - 12) * 32 / 255 - 23;
constexpr std::size_t kOverflowBytes = kPageBytes - 4;

std::size_t bytes_in_page(std::size_t size, std::size_t most) {
  if (size <= most) {
    return size;
  }
  const std::size_t left = kLeastInPage + (size - kLeastInPage) % kOverflowBytes;
  return left <= most ? left : kLeastInPage;
}

// A page that is being filled: pointers grow from its header, cells from its end.
class CellPage {
 public:
  void reset(std::byte type) {
    type_ = type;
    header_bytes_ = is_leaf() ? kLeafHeaderBytes : kInnerHeaderBytes;
    cells_ = 0;
    content_begin_ = kPageBytes;
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

  // Removes the last cell; returns its child and copies the rest of it to `cell`.
  std::uint32_t take_last(std::vector<std::byte>& cell) {
    --cells_;
    const std::size_t end = cells_ == 0 ? kPageBytes : begin_of(cells_ - 1);
    std::uint32_t child = 0;
    std::size_t begin = content_begin_;
    if (!is_leaf()) {
      for (std::size_t i = 0; i < kChildBytes; ++i) {
        child = child << 8 | static_cast<std::uint32_t>(bytes_[begin++]);
      }
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
    const std::byte* const pointer = bytes_.data() + header_bytes_ + kPointerBytes * cell;
    return static_cast<std::size_t>(pointer[0]) << 8 | static_cast<std::size_t>(pointer[1]);
  }

  Page bytes_ = {};
  std::byte type_{};
  std::size_t header_bytes_ = 0;
  std::size_t cells_ = 0;
  std::size_t content_begin_ = kPageBytes;
};

}  // namespace

// The pages of one level: those before `full` are written.
//
// A page of an index that is full ends with a divider, which goes to the level above. It waits here
// until `open` has a cell: no page but the root may be without cells, so if none comes, the divider
// goes to `open`, and the last cell of `full` becomes the divider.
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
  std::vector<std::byte> divider;  // behind `full`
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

void BtreeBuilder::add_row(std::int64_t row_number, ByteView row) {
  cell_.resize(2 * kMaxVarintBytes);
  std::size_t head_bytes = put_varint(cell_.data(), row.size());
  head_bytes += put_varint(cell_.data() + head_bytes, static_cast<std::uint64_t>(row_number));
  add_cell(head_bytes, row);
  last_row_number_ = row_number;
}

void BtreeBuilder::add_key(ByteView key) {
  cell_.resize(kMaxVarintBytes);
  add_cell(put_varint(cell_.data(), key.size()), key);
}

// Completes cell_, of which `head_bytes` are there, and adds it.
void BtreeBuilder::add_cell(std::size_t head_bytes, ByteView content) {
  const std::size_t inside =
      bytes_in_page(content.size(), kind_ == Kind::kTable ? kMostInTable : kMostInIndex);
  cell_.resize(head_bytes);
  cell_.insert(cell_.end(), content.begin(),
               content.begin() + static_cast<std::ptrdiff_t>(inside));
  if (inside < content.size()) {
    const std::uint32_t first = write_overflow(content.subspan(inside));
    cell_.resize(cell_.size() + sizeof(first));
    put_be32(cell_.data() + cell_.size() - sizeof(first), first);
  }
  add_leaf_cell(cell_);
}

// Returns the first page of the chain.
std::uint32_t BtreeBuilder::write_overflow(ByteView rest) {
  const std::uint32_t first = file_.next_number();
  while (!rest.empty()) {
    const std::size_t count = std::min(rest.size(), kOverflowBytes);
    Page page = {};
    std::memcpy(page.data() + kPageBytes - kOverflowBytes, rest.data(), count);
    rest = rest.subspan(count);
    if (!rest.empty()) {
      put_be32(page.data(), file_.number_after_next());
    }
    file_.append(page);
  }
  return first;
}

void BtreeBuilder::add_leaf_cell(ByteView cell) {
  Level& leaves = *levels_[0];
  if (kind_ == Kind::kIndex) {
    add_divider(0, 0, cell);
    return;
  }
  if (!leaves.open.fits(cell.size())) {
    const std::uint32_t number = file_.append(leaves.open.seal(0));
    leaves.open.reset(leaves.type);
    std::byte row_number[kMaxVarintBytes];
    const std::size_t size = put_varint(row_number, static_cast<std::uint64_t>(last_row_number_));
    add_divider(1, number, {row_number, size});
  }
  leaves.open.append(0, cell);
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
