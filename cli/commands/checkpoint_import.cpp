// energon checkpoint import: a state of Energon's loader becomes a state of ours.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/loader_flags.h"
#include "cli/output.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/megatron/energon_state.h"
#include "io/error.h"
#include "io/file.h"

extern char** environ;

namespace energon::cli {

// --- Reading pickles, in a process of its own ---

/// The text of python/energon_cpp/_energon_pickle.py; CMake makes the file that defines it.
extern const char* const kEnergonPickleScript;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeLimit{600};
constexpr std::size_t kMostOutput = std::size_t{4} << 30;
constexpr std::size_t kMostErrors = std::size_t{16} << 10;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorCode::kIo, fmt::format("no pipe can be made: {}", std::strerror(errno)));
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// A running process, which ends with this object at the latest.
class Child {
 public:
  Child(const std::string& program, std::vector<std::string> words)
      : output_(make_pipe()), errors_(make_pipe()) {
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output_.write_end.get(), 1);
    ::posix_spawn_file_actions_adddup2(&actions, errors_.write_end.get(), 2);
    const int error =
        ::posix_spawnp(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
      pid_ = -1;
      throw Error(
          ErrorCode::kNotFound,
          fmt::format("the Python interpreter '{}' cannot be run ({}): it reads the pickles; "
                      "name one with --python",
                      printable(program), std::strerror(error)));
    }
    output_.write_end.reset();
    errors_.write_end.reset();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }

  int output() const { return output_.read_end.get(); }
  int errors() const { return errors_.read_end.get(); }

  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  Pipe output_;
  Pipe errors_;
  pid_t pid_ = -1;
};

// Appends what is there. Returns whether there may be more.
bool read_some(int fd, std::string& text, std::size_t most) {
  std::array<char, 1 << 16> piece{};
  const ssize_t count = ::read(fd, piece.data(), piece.size());
  if (count < 0 && errno == EINTR) {
    return true;
  }
  if (count <= 0) {
    return false;
  }
  text.append(piece.data(), static_cast<std::size_t>(count));
  if (text.size() > most) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the reader of pickles wrote more than {} bytes", most));
  }
  return true;
}

// What the child writes until it closes both of its ends.
std::pair<std::string, std::string> read_all(const Child& child, const std::string& names) {
  const Clock::time_point end = Clock::now() + kTimeLimit;
  std::pair<std::string, std::string> texts;
  std::array<pollfd, 2> ends = {{{child.output(), POLLIN, 0}, {child.errors(), POLLIN, 0}}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    check_interrupt();
    if (Clock::now() > end) {
      throw Error(ErrorCode::kTimeout,
                  fmt::format("the reader of pickles was not done with {} after {} s",
                              printable(names), kTimeLimit.count()));
    }
    if (::poll(ends.data(), ends.size(), 100) <= 0) {
      continue;
    }
    if (ends[0].revents != 0 && !read_some(ends[0].fd, texts.first, kMostOutput)) {
      ends[0].fd = -1;
    }
    if (ends[1].revents != 0 && !read_some(ends[1].fd, texts.second, kMostErrors)) {
      ends[1].fd = -1;
    }
  }
  return texts;
}

/// The states in `files`, in their order, read by the interpreter `python` (a path, or a name in
/// PATH) with a script that is in this program: no package is needed, and no foreign class is
/// loaded. Throws Error: kNotFound if there is no such interpreter, kCorruptData with what the
/// script says about a file, kTimeout, kCancelled after an interrupt.
std::vector<EnergonRankState> read_energon_pickles(const std::vector<std::string>& files,
                                                   const std::string& python) {
  // -I -S: neither the environment nor installed packages have a say.
  std::vector<std::string> words = {python, "-I", "-S", "-c", kEnergonPickleScript};
  words.insert(words.end(), files.begin(), files.end());
  Child child(python, std::move(words));
  const std::string names = fmt::format("{}", fmt::join(files, ", "));
  auto [json, problems] = read_all(child, names);
  const int status = child.wait();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    while (!problems.empty() && problems.back() == '\n') {
      problems.pop_back();
    }
    const std::string how = WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status))
                                              : fmt::format("signal {}", WTERMSIG(status));
    throw Error(
        ErrorCode::kCorruptData,
        problems.empty()
            ? fmt::format("the reader of pickles ended with {}; it read {}", how, printable(names))
            : fmt::format("no state of Energon's loader was read: {}", printable(problems)));
  }
  try {
    return parse_energon_states(json);
  } catch (Error& error) {
    error.with({.path = python});
    throw;
  }
}

// --- The command ---

struct ImportFlags {
  LoaderFlags loader;
  std::vector<std::string> files;
  std::string python = "python3";
  std::string output;
};

// The layout of the states, which the flags may leave out but must not contradict.
WorkerConfig layout_of_states(const ImportFlags& flags,
                              const std::vector<EnergonRankState>& states) {
  WorkerConfig layout = loader_options(flags.loader).worker_config;
  if (!flags.loader.is_given("world_size")) {
    layout.world_size = static_cast<int>(states.size());
  }
  layout = energon_layout(states, layout);
  if (flags.loader.is_given("num_workers") &&
      layout.num_workers != flags.loader.options.loader.worker_config.num_workers) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("--num-workers is {}, but the states are of {} workers: leave it out, "
                    "and change the number with `energon checkpoint rescale`",
                    flags.loader.options.loader.worker_config.num_workers, layout.num_workers),
        {.path = states.front().path});
  }
  return layout;
}

std::string how_to_restore(const WorkerConfig& layout) {
  return fmt::format("restore it with --world-size {} --num-workers {} and the same other flags",
                     layout.world_size, layout.num_workers);
}

// Energon's `checkpoint redist` deals workers with one batch more or less to ranks.
SavableJobState merged(std::vector<SavableDataLoaderState> ranks) {
  try {
    return merge_states(std::move(ranks));
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("{}\nimport the state of each rank into a file of its own, with --rank "
                            "and --world-size",
                            error.message()));
  }
}

// The states of Energon may be the only ones that there are.
void refuse_overwriting(const ImportFlags& flags) {
  for (const std::string& file : flags.files) {
    std::error_code is_missing;
    if (std::filesystem::equivalent(file, flags.output, is_missing)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "--output would replace a state of Energon that is read: name another file",
                  {.path = flags.output});
    }
  }
}

int run_import(const ImportFlags& flags) {
  refuse_overwriting(flags);
  const std::vector<EnergonRankState> states = read_energon_pickles(flags.files, flags.python);
  WorkerConfig layout = layout_of_states(flags, states);
  const PipelineFactory pipeline = make_pipeline(flags.loader);
  const EnergonImportOptions options{.check_cancelled = check_interrupt};
  if (states.size() == 1 && layout.world_size > 1) {
    const SavableDataLoaderState rank =
        import_energon_state(states.front(), pipeline, layout, options);
    write_loader_state(flags.output, rank);
    output().print("{}: rank {} of {}, {} batches\n", printable(flags.output), layout.rank,
                   layout.world_size, rank.batch_index);
  } else {
    std::vector<SavableDataLoaderState> ranks;
    for (layout.rank = 0; layout.rank < layout.world_size; ++layout.rank) {
      ranks.push_back(import_energon_state(states[static_cast<std::size_t>(layout.rank)], pipeline,
                                           layout, options));
    }
    const SavableJobState job = merged(std::move(ranks));
    write_job_state(flags.output, job);
    output().print("{}: {} ranks, {} batches of rank 0\n", printable(flags.output),
                   job.ranks.size(), job.ranks.front().batch_index);
  }
  output().print("{}\n", how_to_restore(layout));
  return kExitOk;
}

}  // namespace

void add_checkpoint_import(CLI::App& checkpoint, Run& run) {
  CLI::App* const command = checkpoint.add_subcommand(
      "import", "Make a state of what megatron-energon's loader saved (torch.save, pickle)");
  const auto flags = std::make_shared<ImportFlags>();
  add_loader_flags(*command, flags->loader, PathCount::kOne);
  command
      ->add_option("STATES", flags->files,
                   "Files of all ranks by rank (save_state_rank), one with the states of all "
                   "(save_state_global), or that of --rank with --world-size")
      ->required();
  command
      ->add_option("--python", flags->python,
                   "Interpreter that reads the pickles; it needs no packages")
      ->capture_default_str();
  command->add_option("--output", flags->output, "File for the state of the job, or of --rank")
      ->required();
  command->callback([flags, &run] { run = [flags] { return run_import(*flags); }; });
}

}  // namespace energon::cli
