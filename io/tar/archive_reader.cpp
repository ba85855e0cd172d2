#include "io/tar/archive_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <vector>

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr std::size_t kReadBytes = std::size_t{16} << 10;

MemberType type_of(archive_entry* entry) {
  if (archive_entry_hardlink(entry) != nullptr) {
    return MemberType::kHardLink;
  }
  switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
      return MemberType::kRegular;
    case AE_IFLNK:
      return MemberType::kSymbolicLink;
    case AE_IFDIR:
      return MemberType::kDirectory;
    case 0:  // a hard link whose name could not be converted
      return MemberType::kHardLink;
    default:
      return MemberType::kOther;
  }
}

// The caller uses the walker's names, which are not converted.
bool is_charset_warning(archive* archive) {
  const char* const reason = archive_error_string(archive);
  return reason != nullptr && std::strstr(reason, "can't be converted") != nullptr;
}

}  // namespace

// libarchive's read callbacks. Exceptions must not cross C code, so they are stored in `failure`.
class ArchiveReader::Input {
 public:
  explicit Input(const FileSource& file) : file(file), buffer(kReadBytes) {}

  static la_ssize_t read(archive* archive, void* self_pointer, const void** bytes) {
    Input& self = *static_cast<Input*>(self_pointer);
    const std::size_t count =
        std::min<std::uint64_t>(self.buffer.size(), self.file.size() - self.position);
    try {
      self.file.read_at(self.position, std::span(self.buffer).first(count));
    } catch (...) {
      self.failure = std::current_exception();
      archive_set_error(archive, EIO, "reading failed");
      return ARCHIVE_FATAL;
    }
    self.position += count;
    *bytes = self.buffer.data();
    return static_cast<la_ssize_t>(count);
  }

  // Never skips past the end, so that libarchive notices truncation on its next read.
  static la_int64_t skip(archive*, void* self_pointer, la_int64_t request) {
    Input& self = *static_cast<Input*>(self_pointer);
    const std::uint64_t count = std::min<std::uint64_t>(static_cast<std::uint64_t>(request),
                                                        self.file.size() - self.position);
    self.position += count;
    return static_cast<la_int64_t>(count);
  }

  const FileSource& file;
  std::vector<std::byte> buffer;
  std::uint64_t position = 0;
  std::exception_ptr failure;
};

void ArchiveReader::Closer::operator()(::archive* archive) const { archive_read_free(archive); }

ArchiveReader::ArchiveReader(const FileSource& file, Compression compression)
    : input_(std::make_unique<Input>(file)), archive_(archive_read_new()) {
  archive* const archive = archive_.get();
  if (archive == nullptr) {
    throw std::bad_alloc();
  }
  int code = archive_read_support_format_tar(archive);
  if (code == ARCHIVE_OK && compression == Compression::kGzip) {
    code = archive_read_support_filter_gzip(archive);
  } else if (code == ARCHIVE_OK && compression == Compression::kZstd) {
    code = archive_read_support_filter_zstd(archive);
  }
  if (code != ARCHIVE_OK) {  // ARCHIVE_WARN: it would start a program to decompress
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("this libarchive ({}) has no built-in support for tar with compression {}",
                    archive_version_string(), to_string(compression)),
        {.path = file.path()});
  }
  code = archive_read_set_options(archive, "tar:!mac-ext");
  if (code != ARCHIVE_OK) {
    fail(code);
  }
  archive_read_set_read_callback(archive, Input::read);
  archive_read_set_skip_callback(archive, Input::skip);
  archive_read_set_callback_data(archive, input_.get());
  code = archive_read_open1(archive);
  if (code != ARCHIVE_OK) {
    fail(code);
  }
}

ArchiveReader::~ArchiveReader() = default;

std::optional<TarMember> ArchiveReader::next() {
  archive* const archive = archive_.get();
  archive_entry* entry = nullptr;
  const int code = archive_read_next_header(archive, &entry);
  if (code == ARCHIVE_EOF) {
    return std::nullopt;
  }
  if (code != ARCHIVE_OK && !(code == ARCHIVE_WARN && is_charset_warning(archive))) {
    fail(code);
  }
  TarMember member;
  const char* const name = archive_entry_pathname(entry);
  member.name = name != nullptr ? name : "";
  member.type = type_of(entry);
  member.sparse = archive_entry_sparse_count(entry) > 0;
  member.header_offset = static_cast<std::uint64_t>(archive_read_header_position(archive));
  member.data_offset = static_cast<std::uint64_t>(archive_filter_bytes(archive, 0));
  member.size = static_cast<std::uint64_t>(archive_entry_size(entry));
  return member;
}

void ArchiveReader::fail(int code) const {
  if (input_->failure) {
    std::rethrow_exception(input_->failure);
  }
  const char* const reason = archive_error_string(archive_.get());
  const la_int64_t position = archive_read_header_position(archive_.get());
  throw Error(ErrorCode::kCorruptData,
              fmt::format("libarchive rejects the archive (code {}): {}", code,
                          reason != nullptr ? printable(reason) : "no reason given"),
              {.path = input_->file.path(),
               .byte_offset = static_cast<std::uint64_t>(std::max<la_int64_t>(position, 0))});
}

}  // namespace energon
