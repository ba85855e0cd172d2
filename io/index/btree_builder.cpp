#include "io/index/btree_builder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "io/index/btree_format.h"
#include "io/index/row_encoder.h"

namespace energon {
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

  // The bytes of the last cell and those behind it. Requires: a leaf with a cell.
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

void BtreeBuilder::add(ByteView cell) {
  cell = split_if_long(cell);
  if (kind_ == Kind::kIndex) {
    add_divider(0, 0, cell);
    return;
  }
  Level& leaves = *levels_[0];
  if (!leaves.open.fits(cell.size())) {
    // The number of the last row, which stays in its leaf, too.
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
