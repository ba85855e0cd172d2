#include "tests/energon/distributed/forked_group.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/distributed/socket_comm.h"
#include "io/byte_codec.h"
#include "io/error.h"
#include "io/file.h"
#include "tests/support/child_runner.h"

namespace energon::testing {
namespace {

UniqueFd report_file() {
  UniqueFd file(::memfd_create("report", MFD_CLOEXEC));
  if (!file.valid()) {
    throw std::runtime_error("memfd_create failed");
  }
  return file;
}

std::string read_all(int fd) {
  std::string bytes(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)), '\0');
  if (::pread(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("a report cannot be read");
  }
  return bytes;
}

int run_rank(int rank, int report, const std::function<std::string(int)>& body) {
  const auto begin = std::chrono::steady_clock::now();
  std::string text;
  try {
    text = body(rank);
  } catch (const Error& error) {
    text = fmt::format("error {}: {}", to_string(error.code()), error.what());
  }
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  ByteWriter writer;
  writer.i64(took.count());
  writer.raw(text);
  const std::string& bytes = writer.bytes();
  return ::write(report, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) ? 0 : 1;
}

std::vector<RankReport> run_forked(int size, const std::function<std::string(int rank)>& body,
                                   const std::function<void()>& all_forked) {
  std::vector<UniqueFd> files;
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    files.push_back(report_file());
    const int report = files.back().get();
    children.push_back(start_child([&, rank, report] { return run_rank(rank, report, body); }));
  }
  all_forked();
  std::vector<RankReport> reports;
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    const ChildResult result = await_child(children[rank], std::chrono::seconds(180));
    RankReport report;
    report.exited = result.exited && result.exit_code == 0;
    report.signal = result.signal;
    const std::string bytes = read_all(files[rank].get());
    if (bytes.size() >= sizeof(std::int64_t)) {
      ByteReader reader(bytes, "a report");
      report.took = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::nanoseconds(reader.i64()));
      report.text = reader.raw(reader.left());
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace

std::vector<RankReport> run_ranks(int size, const std::function<std::string(int rank)>& body) {
  return run_forked(size, body, [] {});
}

std::vector<RankReport> run_group(int size, const std::function<std::string(Comm& comm)>& body,
                                  const CommOptions& options) {
  std::vector<std::vector<UniqueFd>> mesh = socket_mesh(size);
  const auto body_of_rank = [&](int rank) {
    SocketComm comm(rank, take_row(mesh, rank), options);
    return body(comm);
  };
  // The parent keeps no end of the sockets, so that the peers of a rank notice when it ends.
  return run_forked(size, body_of_rank, [&] { mesh.clear(); });
}

std::vector<std::string> texts(const std::vector<RankReport>& reports) {
  std::vector<std::string> all;
  for (const RankReport& report : reports) {
    all.push_back(report.exited ? report.text : "rank did not exit: " + report.text);
  }
  return all;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return fmt::format("{}: {}", to_string(error.code()), error.what());
  }
  return "no error";
}

std::string exercise(Comm& comm) {
  std::string seen;
  const std::string mine = fmt::format("r{}", comm.rank());
  for (int root = 0; root < comm.size(); ++root) {
    seen += comm.broadcast(mine, root) + " ";
    seen += fmt::format("{} ", fmt::join(comm.gather(mine, root), "+"));
    std::vector<std::string> parts;
    if (comm.rank() == root) {
      for (int rank = 0; rank < comm.size(); ++rank) {
        parts.push_back(fmt::format("{:x}>{:x}", root, rank));
      }
    }
    seen += comm.scatter(parts, root) + " ";
    std::vector<ByteView> views;
    for (const std::string& part : parts) {
      views.push_back(as_bytes(part));
    }
    std::string own(3, '?');
    comm.scatter_into(views, std::as_writable_bytes(std::span(own)), root);
    seen += comm.rank() == root ? "own " : own + " ";
  }
  seen += fmt::format("{}", fmt::join(comm.all_gather(mine), "+"));
  comm.barrier();
  return seen;
}

std::string expected_exercise(int rank, int size) {
  std::vector<std::string> all;
  for (int other = 0; other < size; ++other) {
    all.push_back(fmt::format("r{}", other));
  }
  const std::string joined = fmt::format("{}", fmt::join(all, "+"));
  std::string expected;
  for (int root = 0; root < size; ++root) {
    const std::string part = fmt::format("{:x}>{:x}", root, rank);
    expected += fmt::format("r{} {} {} {} ", root, rank == root ? joined : "", part,
                            rank == root ? "own" : part);
  }
  return expected + joined;
}

}  // namespace energon::testing
