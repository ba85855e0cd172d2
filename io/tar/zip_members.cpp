#include "io/tar/zip_members.h"

#include <locale.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr std::uint64_t kMaxRatioOfDeflate = 1032;

// libarchive converts names to the character set of the thread's locale and loses those that do not
// fit into it. UTF-8 for its calls, whatever the program has set.
class Utf8Locale {
 public:
  Utf8Locale()
      : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)),
        previous_(locale_ != nullptr ? uselocale(locale_) : nullptr) {}
  ~Utf8Locale() {
    if (locale_ != nullptr) {
      uselocale(previous_);
      freelocale(locale_);
    }
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  const locale_t locale_;
  const locale_t previous_;
};

struct ZipCloser {
  void operator()(archive* zip) const { archive_read_free(zip); }
};

class ZipReader {
 public:
  ZipReader(ByteView encoded, const MemoryLimit& limit)
      : encoded_(encoded), limit_(limit), zip_(archive_read_new()) {
    if (zip_ == nullptr) {
      throw std::bad_alloc();
    }
    check(archive_read_support_format_zip_seekable(zip_.get()));
    check(archive_read_open_memory(zip_.get(), encoded.data(), encoded.size()));
  }

  std::vector<ZipMember> read() {
    std::vector<ZipMember> members;
    std::unordered_set<std::string> names;
    archive_entry* entry = nullptr;
    while (true) {
      const int code = archive_read_next_header(zip_.get(), &entry);
      if (code == ARCHIVE_EOF) {
        return members;
      }
      check(code);
      if (archive_entry_filetype(entry) == AE_IFDIR) {
        continue;
      }
      member_ = name_of(entry);
      if (!names.insert(member_).second) {
        throw Error(ErrorCode::kCorruptData,
                    fmt::format("the zip has two members '{}'", printable(member_)));
      }
      check_kind(entry);
      members.push_back({member_, content_of(entry)});
      member_.clear();
    }
  }

 private:
  std::string name_of(archive_entry* entry) const {
    const char* const name = archive_entry_pathname(entry);
    if (name == nullptr) {
      throw Error(ErrorCode::kCorruptData, "the zip has a member whose name cannot be read");
    }
    return utf8_text(as_bytes(name), "the name of a member of the zip", 0);
  }

  // Other methods are refused because their decoders take memory that the header asks for.
  void check_kind(archive_entry* entry) const {
    if (archive_entry_is_encrypted(entry) != 0) {
      fail_unsupported("is encrypted");
    }
    if (archive_entry_filetype(entry) != AE_IFREG) {
      fail_unsupported("is not a regular file");
    }
    const std::string_view format = archive_format_name(zip_.get());  // "ZIP 2.0 (deflation)"
    if (format.find("(uncompressed)") == std::string_view::npos &&
        format.find("(deflation)") == std::string_view::npos) {
      fail_unsupported("is neither stored nor deflated");
    }
  }

  std::vector<std::byte> content_of(archive_entry* entry) {
    std::vector<std::byte> content;
    if (archive_entry_size_is_set(entry) != 0) {
      const auto claimed =
          static_cast<std::uint64_t>(std::max<la_int64_t>(archive_entry_size(entry), 0));
      check_sum(claimed);
      content.reserve(std::min(claimed, encoded_.size() * kMaxRatioOfDeflate));
    }
    while (true) {
      const void* bytes = nullptr;
      std::size_t size = 0;
      la_int64_t offset = 0;
      const int code = archive_read_data_block(zip_.get(), &bytes, &size, &offset);
      if (code == ARCHIVE_EOF) {
        break;
      }
      check(code);
      check_sum(content.size() + size);
      const auto* const begin = static_cast<const std::byte*>(bytes);
      content.insert(content.end(), begin, begin + size);
    }
    sum_ += content.size();
    return content;
  }

  // `bytes`: of this member, so far or claimed.
  void check_sum(std::uint64_t bytes) const {
    limit_.check("the zip", bytes + sum_ < bytes ? ~std::uint64_t{0} : bytes + sum_);
  }

  void check(int code) const {
    if (code == ARCHIVE_OK) {
      return;
    }
    const char* const reason = archive_error_string(zip_.get());
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("libarchive refuses the zip of {} bytes{} (code {}): {}", encoded_.size(),
                    member_.empty() ? "" : fmt::format(" in '{}'", printable(member_)), code,
                    reason != nullptr ? printable(reason) : "no reason given"));
  }

  [[noreturn]] void fail_unsupported(std::string_view why) const {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the member '{}' of the zip {}", printable(member_), why));
  }

  const ByteView encoded_;
  const MemoryLimit limit_;
  const std::unique_ptr<archive, ZipCloser> zip_;
  std::string member_;     // which is being read, for messages
  std::uint64_t sum_ = 0;  // bytes of the members before
};

// libarchive does not take it for a zip.
bool is_empty_zip(ByteView encoded) {
  constexpr std::size_t kEndRecordBytes = 22;
  const std::string_view text = as_text(encoded);
  return text.size() == kEndRecordBytes && text.starts_with("PK\x05\x06") &&
         text.find_first_not_of('\0', 4) == std::string_view::npos;
}

}  // namespace

std::vector<ZipMember> read_zip(ByteView encoded, const MemoryLimit& limit) {
  if (is_empty_zip(encoded)) {
    return {};
  }
  const Utf8Locale locale;
  return ZipReader(encoded, limit).read();
}

}  // namespace energon
