#include "io/index/btree_reader.h"

#include <algorithm>

#include "io/error.h"
#include "io/index/btree_format.h"
#include "io/index/row_encoder.h"

namespace energon {

// A page on the way down. An inner page has a child before each cell and one behind the last.
struct BtreeReader::Step {
  std::size_t cell_count() const { return get_be16(page.data() + 3); }
  bool is_leaf() const { return page[0] == kLeafIndex || page[0] == kLeafTable; }
  std::size_t header_bytes() const { return is_leaf() ? kLeafHeaderBytes : kInnerHeaderBytes; }

  Page page = {};
  std::size_t visited = 0;  // children and cells, in turn; in a leaf: cells
};

BtreeReader::BtreeReader(const FileSource& file, BtreeBuilder::Kind kind, std::uint32_t root)
    : file_(file), kind_(kind), pages_left_(file.size() / kBtreePageBytes) {
  descend(root);
}

BtreeReader::~BtreeReader() = default;

std::optional<ByteView> BtreeReader::next() {
  while (depth_ > 0) {
    Step& step = *steps_[depth_ - 1];
    const std::size_t cells = step.cell_count();
    const std::size_t visited = step.visited++;
    if (step.is_leaf()) {
      if (visited < cells) {
        return cell_at(step, visited);
      }
      --depth_;
    } else if (visited > 2 * cells) {
      --depth_;
    } else if (visited == 2 * cells) {
      descend(get_be32(step.page.data() + kLeafHeaderBytes));
    } else if (visited % 2 == 0) {
      const std::size_t pointer = step.header_bytes() + kPointerBytes * (visited / 2);
      const std::size_t begin = get_be16(step.page.data() + pointer);
      if (begin > kBtreePageBytes - kChildBytes) {
        fail();
      }
      descend(get_be32(step.page.data() + begin));
    } else if (kind_ == BtreeBuilder::Kind::kIndex) {
      return cell_at(step, visited / 2);
    }
  }
  return std::nullopt;
}

void BtreeReader::descend(std::uint32_t page) {
  if (depth_ == steps_.size()) {
    steps_.push_back(std::make_unique<Step>());
  }
  Step& step = *steps_[depth_++];
  read_page(page, step.page);
  step.visited = 0;
  const std::byte type = step.page[0];
  const bool is_table = kind_ == BtreeBuilder::Kind::kTable;
  if (type != (is_table ? kLeafTable : kLeafIndex) &&
      type != (is_table ? kInnerTable : kInnerIndex)) {
    fail();
  }
  if (step.header_bytes() + kPointerBytes * step.cell_count() > kBtreePageBytes) {
    fail();
  }
}

ByteView BtreeReader::cell_at(const Step& step, std::size_t cell) {
  const std::size_t pointer = step.header_bytes() + kPointerBytes * cell;
  const std::size_t begin =
      get_be16(step.page.data() + pointer) + (step.is_leaf() ? 0 : kChildBytes);
  const bool is_table = kind_ == BtreeBuilder::Kind::kTable;
  if (begin >= kBtreePageBytes) {
    fail();
  }
  const ByteView rest = ByteView(step.page).subspan(begin);
  std::size_t head = 0;
  const std::optional<std::uint64_t> size = take_varint(rest, head);
  if (!size || *size > file_.size() || (is_table && !take_varint(rest, head))) {
    fail();
  }
  const std::size_t inside = bytes_in_page(*size, is_table ? kMostInTable : kMostInIndex);
  const bool is_split = inside < *size;
  if (head + inside + (is_split ? kOverflowPointerBytes : 0) > rest.size()) {
    fail();
  }
  const ByteView in_page = rest.first(head + inside);
  return is_split ? join(in_page, get_be32(rest.data() + head + inside), head + *size) : in_page;
}

ByteView BtreeReader::join(ByteView inside, std::uint32_t overflow, std::size_t size) {
  long_cell_.assign(inside.begin(), inside.end());
  Page page;
  while (long_cell_.size() < size) {
    read_page(overflow, page);
    overflow = get_be32(page.data());
    const std::size_t count = std::min(size - long_cell_.size(), kOverflowBytes);
    const auto begin = page.begin() + static_cast<std::ptrdiff_t>(kBtreePageBytes - kOverflowBytes);
    long_cell_.insert(long_cell_.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  return long_cell_;
}

void BtreeReader::read_page(std::uint32_t number, Page& page) {
  if (number == 0 || number > file_.size() / kBtreePageBytes || pages_left_-- == 0) {
    fail();
  }
  file_.read_at(std::uint64_t{number - 1} * kBtreePageBytes, page);
}

void BtreeReader::fail() const {
  throw Error(ErrorCode::kCorruptData,
              "index database: damaged; prepare the dataset again without what was prepared before",
              {.path = file_.path()});
}

}  // namespace energon
