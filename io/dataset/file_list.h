// Lists the files of a folder whose files are looked up by name. Private to the library.

#pragma once

#include <string>
#include <vector>

namespace energon {

/// The files in `folder` and below it, relative to it, sorted by their bytes. Follows links to
/// folders, except to a folder that already contains the link; links that lead nowhere are listed,
/// pipes, sockets and devices are not. Leaves out the folders .nv-meta and .nv-meta.* at any depth.
/// Throws Error: kNotFound, kIo; kInvalidArgument for more than 100,000 folders below links.
std::vector<std::string> list_files(const std::string& folder);

}  // namespace energon
