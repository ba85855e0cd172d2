// Reads several files of a prepared dataset so that all are from the same prepare.
//
// A prepare replaces many files, one after the other. Code that reads more than one of them, such
// as .info.json and index.sqlite, must get all from the old set or all from the new one. So
// everything that reads a prepared folder does so inside read_committed().
// io/dataset/prepare_commit.h describes how the files are replaced.

#pragma once

#include <functional>
#include <span>
#include <string>

namespace energon {

/// Completes a prepare that was stopped while it replaced the files in the folder `dataset_path`,
/// then calls `read`, and repeats this until no file was replaced during the call. So `read` may be
/// called several times, and the last call counts. An Error of `read` is passed on if no file was
/// replaced during the call. Fast for folders that were never prepared. Throws Error:
/// kInvalidArgument if the folder keeps being prepared, or with who must complete a prepare;
/// kCorruptData for an invalid journal; kIo.
void read_committed(const std::string& dataset_path, const std::function<void()>& read);

/// The same for a read of several datasets.
void read_committed(std::span<const std::string> dataset_paths, const std::function<void()>& read);

}  // namespace energon
