// The journal of a commit (io/dataset/prepare_commit.h): the steps that replace the files of a
// prepared dataset. Private to io. docs/formats/energon_files.md gives the format.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace energon {

struct CommitStep {
  enum class Kind : std::uint8_t {
    kMove,           ///< `from` is the name of a file in <id>/
    kMoveTemporary,  ///< `from` is a temporary file of `to`, beside it (io/shared_folder.h)
    kRemove,         ///< `to` need not exist
  };
  Kind kind = Kind::kMove;
  std::string from = {};
  std::string to = {};  ///< relative to the dataset's folder, like a temporary `from`
};

/// The bytes of <id>/journal.
std::string encode_journal(const std::vector<CommitStep>& steps);

/// The steps in the content of the file `journal`. Throws Error (kCorruptData) if it is damaged, or
/// if a step names a file that prepare does not write.
std::vector<CommitStep> decode_journal(std::string_view text, const std::string& journal);

}  // namespace energon
