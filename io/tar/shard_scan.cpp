#include "io/tar/shard_scan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/tar/archive_reader.h"
#include "io/tar/compression.h"
#include "io/tar/member_name.h"
#include "io/tar/tar_header.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

constexpr std::size_t kFewParts = 8;  // of a sample

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

// Maps names that differ only in ASCII case to the same text.
std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

// Indices of two equal items, with the smallest second index. Sorts instead of hashing, because
// names may be chosen to collide.
template <class Items, class Text>
std::optional<std::pair<std::size_t, std::size_t>> find_repeated(const Items& items, Text text) {
  std::vector<std::pair<decltype(text(items[0])), std::size_t>> sorted;
  sorted.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    sorted.emplace_back(text(items[i]), i);
  }
  std::sort(sorted.begin(), sorted.end());
  std::optional<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i - 1].first == sorted[i].first && (!found || sorted[i].second < found->second)) {
      found.emplace(sorted[i - 1].second, sorted[i].second);
    }
  }
  return found;
}

bool has_upper_case(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

// The usual case, checked without allocating: few names, all different, all lower case.
bool has_few_different_names(const std::vector<ScannedPart>& parts) {
  if (parts.size() == 1) {
    return true;
  }
  if (parts.size() > kFewParts) {
    return false;
  }
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    if (has_upper_case(part->name) || std::any_of(parts.begin(), part, [&](const auto& earlier) {
          return earlier.name == part->name;
        })) {
      return false;
    }
  }
  return true;
}

// A warning that may apply to many members: counted, and reported once with its first occurrence.
struct Oddity {
  std::uint64_t count = 0;
  std::string first;
  std::uint64_t first_offset = 0;

  void note(std::string_view name, std::uint64_t offset) {
    if (count++ == 0) {
      first = name;
      first_offset = offset;
    }
  }
  void warn(std::string_view what, std::vector<std::string>& warnings) const {
    if (count != 0) {
      warnings.push_back(fmt::format("{} {}; the first is '{}' at byte {}", count, what,
                                     printable(first), first_offset));
    }
  }
};

class Scan {
 public:
  Scan(const FileSource& file, const ShardScanOptions& options) : file_(file), options_(options) {}

  // Checks only the first member with libarchive, which validates more fields of the first header
  // than of later ones. Nullopt if any header is not plain, and on any error.
  std::optional<ShardScan> run_if_plain() {
    try {
      check_is_tar();
      TarFileWalker walker(file_);
      while (const std::optional<TarMember> member = walker.next()) {
        if (!walker.is_plain()) {
          return std::nullopt;
        }
        if (member->header_offset == 0) {
          check_agreement(*member, ArchiveReader(file_).next());
        }
        add(*member);
      }
      if (!walker.is_plain() ||
          check_archive_tail(file_, walker.offset()) != ArchiveTail::kComplete) {
        return std::nullopt;
      }
      return finish(walker.offset());
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // Walks with libarchive and the walker side by side.
  ShardScan run() {
    check_is_tar();
    ArchiveReader reader(file_);
    TarFileWalker walker(file_);
    while (const std::optional<TarMember> member = walker.next()) {
      check_supported(*member);
      check_agreement(*member, reader.next());
      add(*member);
    }
    if (const std::optional<TarMember> extra = reader.next()) {
      throw corrupt_tar(walker.offset(), fmt::format("libarchive sees one more member, '{}'",
                                                     printable(extra->name)));
    }
    return finish(walker.offset());
  }

 private:
  ShardScan finish(std::uint64_t end_offset);
  void check_is_tar() const;
  void check_supported(const TarMember& member) const;
  void check_agreement(const TarMember& ours, const std::optional<TarMember>& theirs) const;
  void add(const TarMember& member);
  void add_part(const TarMember& member, MemberName name);
  void close_sample(std::uint64_t end);
  void check_keys() const;
  void check_tail();
  void add_warnings();

  const FileSource& file_;
  const ShardScanOptions& options_;

  ShardScan result_;
  bool dotted_keys_ = false;  // "./a"
  bool plain_keys_ = false;   // "a"
  Oddity unknown_type_;
  Oddity case_twins_;
};

// The first block distinguishes a damaged tar from a file that is not a tar. An empty file, as left
// by a killed writer, is never a shard.
void Scan::check_is_tar() const {
  std::array<std::byte, kTarBlockBytes> buffer{};
  const auto first = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), file_.size()));
  file_.read_at(0, first);
  const std::string what = describe_first_bytes(first);
  if (first.size() < kTarBlockBytes) {
    throw corrupt_tar(0, fmt::format("not a tar: the file has {} bytes, less than one block; {}",
                                     first.size(), what));
  }
  if (is_zero_block(buffer)) {
    return;
  }
  try {
    parse_tar_header(buffer, 0);
  } catch (const Error& error) {
    throw corrupt_tar(
        0, fmt::format("not a tar, or its first header is damaged: {}; {}", error.message(), what));
  }
}

void Scan::check_supported(const TarMember& member) const {
  if (member.sparse) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("member '{}' is sparse: its bytes are not stored in one piece; repack "
                            "the shard without --sparse",
                            printable(member.name)),
                {.byte_offset = member.header_offset});
  }
}

// A difference means that readers disagree about the archive, so one of them must be wrong.
void Scan::check_agreement(const TarMember& ours, const std::optional<TarMember>& theirs) const {
  const auto fail = [&](std::string_view what) {
    throw corrupt_tar(ours.header_offset,
                      fmt::format("ambiguous archive: libarchive sees {} for member '{}'", what,
                                  printable(ours.name)));
  };
  if (!theirs) {
    fail("the end of the archive");
  }
  if (theirs->type != ours.type) {
    fail("another type");
  }
  if (theirs->sparse || theirs->size != ours.size || theirs->data_offset != ours.data_offset) {
    fail(fmt::format("{} bytes at {} instead of {} at {}", theirs->size, theirs->data_offset,
                     ours.size, ours.data_offset));
  }
  if (is_ascii(ours.name) && theirs->name != ours.name) {
    fail(fmt::format("the name '{}'", printable(theirs->name)));
  }
}

ShardScan Scan::finish(std::uint64_t end_offset) {
  result_.end_offset = end_offset;
  close_sample(end_offset);
  check_keys();
  check_tail();
  add_warnings();
  return std::move(result_);
}

void Scan::add(const TarMember& member) {
  switch (member.type) {
    case MemberType::kDirectory:
      ++result_.skipped.directories;
      return;
    case MemberType::kSymbolicLink:
      ++result_.skipped.symbolic_links;
      return;
    case MemberType::kOther:
      ++result_.skipped.special_files;
      return;
    case MemberType::kHardLink:
      // Skipping it would lose a part of its sample. tar writes a hard link if the same file is
      // packed twice, even under two names.
      throw corrupt_tar(member.header_offset,
                        fmt::format("member '{}' is a hard link to another member; repack the "
                                    "shard with --hard-dereference",
                                    printable(member.name)));
    case MemberType::kRegular:
      break;
  }
  if (member.type_flag != '0' && member.type_flag != '\0' && member.type_flag != '7') {
    unknown_type_.note(member.name, member.header_offset);
  }
  if (const std::optional<MemberName> name = split_member_name(member.name)) {
    add_part(member, *name);
  } else {
    ++result_.skipped.by_name;
  }
}

void Scan::add_part(const TarMember& member, MemberName name) {
  const auto where = [&] {
    return ErrorContext{.byte_offset = member.header_offset, .sample_key = std::string(name.key)};
  };
  if (is_reserved_part(name.part)) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("part '{}': names that begin with '__' are reserved for the loader",
                            printable(name.part)),
                where());
  }
  if (options_.max_member_bytes && member.size > *options_.max_member_bytes) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("part '{}' has {} bytes, more than {} "
                            "(ShardScanOptions::max_member_bytes)",
                            printable(name.part), member.size, *options_.max_member_bytes),
                where());
  }
  if (result_.samples.empty() || result_.samples.back().key != name.key) {
    close_sample(member.header_offset);
    const std::size_t usual_parts =
        result_.samples.empty() ? 1 : std::min(result_.samples.back().parts.size(), kFewParts);
    result_.samples.push_back({.key = std::string(name.key), .offset = member.header_offset});
    result_.samples.back().parts.reserve(usual_parts);
    (name.key.starts_with("./") ? dotted_keys_ : plain_keys_) = true;
  }
  std::vector<ScannedPart>& parts = result_.samples.back().parts;
  if (parts.size() >= options_.max_parts_per_sample) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("the sample has more than {} parts "
                            "(ShardScanOptions::max_parts_per_sample)",
                            options_.max_parts_per_sample),
                where());
  }
  parts.push_back({std::string(name.part), member.data_offset, member.size});
}

void Scan::close_sample(std::uint64_t end) {
  if (result_.samples.empty()) {
    return;
  }
  ScannedSample& sample = result_.samples.back();
  sample.size = end - sample.offset;
  if (has_few_different_names(sample.parts)) {
    return;
  }
  const auto name_of = [](const ScannedPart& part) { return std::string_view(part.name); };
  if (const auto repeated = find_repeated(sample.parts, name_of)) {
    const ScannedPart& first = sample.parts[repeated->first];
    const ScannedPart& second = sample.parts[repeated->second];
    throw Error(ErrorCode::kCorruptData,
                fmt::format("part '{}' appears twice in one sample, at bytes {} and {}",
                            printable(first.name), first.content_offset, second.content_offset),
                {.byte_offset = second.content_offset, .sample_key = sample.key});
  }
  const auto folded = [](const ScannedPart& part) { return lower_case(part.name); };
  const bool is_any_upper_case =
      std::any_of(sample.parts.begin(), sample.parts.end(),
                  [](const auto& part) { return has_upper_case(part.name); });
  if (is_any_upper_case && find_repeated(sample.parts, folded)) {
    case_twins_.note(sample.key, sample.offset);
  }
}

void Scan::check_keys() const {
  const auto key_of = [](const ScannedSample& sample) { return std::string_view(sample.key); };
  const auto& samples = result_.samples;
  if (std::adjacent_find(samples.begin(), samples.end(), [&](const auto& a, const auto& b) {
        return a.key >= b.key;
      }) == samples.end()) {
    return;  // the usual case
  }
  if (const auto repeated = find_repeated(result_.samples, key_of)) {
    const ScannedSample& first = result_.samples[repeated->first];
    const ScannedSample& second = result_.samples[repeated->second];
    throw Error(ErrorCode::kCorruptData,
                fmt::format("duplicate key '{}': its samples begin at bytes {} and {}; the parts "
                            "of a sample must be adjacent (tar --sort=name)",
                            printable(first.key), first.offset, second.offset),
                {.byte_offset = second.offset, .sample_key = second.key});
  }
}

void Scan::check_tail() {
  const ArchiveTail tail = check_archive_tail(file_, result_.end_offset);
  if (tail == ArchiveTail::kComplete) {
    return;
  }
  std::string message = describe(tail, result_.end_offset);
  if (options_.strictness == ScanStrictness::kStrict) {
    throw corrupt_tar(result_.end_offset, std::move(message));
  }
  result_.warnings.push_back(std::move(message));
}

void Scan::add_warnings() {
  if (result_.samples.empty()) {
    result_.warnings.push_back("the shard has no samples");
  }
  if (dotted_keys_ && plain_keys_) {
    result_.warnings.push_back("some keys begin with './' and some do not: './a' and 'a' differ");
  }
  unknown_type_.warn("members of an unknown type are read as regular files", result_.warnings);
  case_twins_.warn("samples have parts whose names differ only in upper and lower case",
                   result_.warnings);
}

}  // namespace

ShardScan scan_shard(const FileSource& file, const ShardScanOptions& options) {
  try {
    if (std::optional<ShardScan> scan = Scan(file, options).run_if_plain()) {
      return *std::move(scan);
    }
    return Scan(file, options).run();
  } catch (Error& error) {
    error.with({.path = file.path()});
    throw;
  }
}

// --- The end of the archive ---

namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;  // whole blocks

std::optional<std::uint64_t> find_nonzero(const FileSource& file, std::uint64_t offset) {
  std::vector<std::byte> chunk(kChunkBytes);
  for (; offset < file.size(); offset += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(kChunkBytes, file.size() - offset));
    file.read_at(offset, chunk);
    const auto found = std::find_if(chunk.begin(), chunk.end(),
                                    [](std::byte byte) { return byte != std::byte{0}; });
    if (found != chunk.end()) {
      return offset + static_cast<std::uint64_t>(found - chunk.begin());
    }
  }
  return std::nullopt;
}

bool is_header(TarBlock block) { return block[0] != std::byte{0} && has_valid_checksum(block); }

// The first tar header at `first`, where the garbage begins, or at a block boundary after it.
std::optional<std::uint64_t> find_header(const FileSource& file, std::uint64_t first) {
  std::array<std::byte, kTarBlockBytes> block{};
  if (first + kTarBlockBytes <= file.size()) {
    file.read_at(first, block);
    if (is_header(block)) {
      return first;
    }
  }
  std::vector<std::byte> chunk(kChunkBytes);
  for (std::uint64_t offset = first / kTarBlockBytes * kTarBlockBytes; offset < file.size();
       offset += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(kChunkBytes, file.size() - offset));
    file.read_at(offset, chunk);
    for (std::size_t i = 0; i + kTarBlockBytes <= chunk.size(); i += kTarBlockBytes) {
      if (is_header(TarBlock(std::span(chunk).subspan(i, kTarBlockBytes)))) {
        return offset + i;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

ArchiveTail check_archive_tail(const FileSource& file, std::uint64_t end_offset) {
  if (end_offset >= file.size()) {
    return ArchiveTail::kNoEnd;
  }
  const std::optional<std::uint64_t> garbage = find_nonzero(file, end_offset);
  if (!garbage) {
    return ArchiveTail::kComplete;
  }
  const ErrorContext where{.path = file.path(), .byte_offset = *garbage};
  if (*garbage < end_offset + 2 * kTarBlockBytes) {
    throw Error(ErrorCode::kCorruptData,
                "data after a single zero block: the shard was overwritten there, or its end is "
                "damaged",
                where);
  }
  if (const std::optional<std::uint64_t> header = find_header(file, *garbage)) {
    throw Error(ErrorCode::kCorruptData,
                "another archive follows the end of this one; tars cannot be joined with cat: "
                "repack them into one",
                {.path = file.path(), .byte_offset = *header});
  }
  return ArchiveTail::kGarbage;
}

std::string describe(ArchiveTail tail, std::uint64_t end_offset) {
  return tail == ArchiveTail::kNoEnd
             ? fmt::format(
                   "no end-of-archive block: the file ends with a member, at byte {}; it "
                   "may have been cut there",
                   end_offset)
             : fmt::format("data after the end of the archive, which is at byte {}, is ignored",
                           end_offset);
}

}  // namespace energon
