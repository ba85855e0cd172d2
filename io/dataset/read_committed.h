// Reading files of prepared datasets so that all are of one prepare.
//
// A prepare replaces many files, one after the other. Whoever reads more than one of them,
// .info.json and index.sqlite, say, must get both from the old set or both from the new one; so
// everything that reads a prepared folder does it in here. How the files are replaced:
// io/dataset/prepare_commit.h.

#pragma once

#include <functional>
#include <span>
#include <string>

namespace energon {

/// Finishes a prepare that was stopped while it replaced the files in the folder `dataset_path`,
/// then calls `read` until none replaced any meanwhile: `read` may be called several times, and the
/// last call counts. An Error of `read` is thrown if nothing was replaced meanwhile. Quick for
/// folders that were never prepared. Throws Error: kInvalidArgument if the folder is prepared again
/// and again, or who must finish a prepare; kCorruptData for a journal that no prepare wrote; kIo.
void read_committed(const std::string& dataset_path, const std::function<void()>& read);

/// The same for a read of several datasets.
void read_committed(std::span<const std::string> dataset_paths, const std::function<void()>& read);

}  // namespace energon
