// What the processes of a loader inherit from the trainer: locks, descriptors, the memory of other
// loaders.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/loader/savable_data_loader.h"
#include "io/file.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/support/child_runner.h"

namespace {

using energon::CallContext;
using energon::LoaderOptions;
using energon::Sample;
using energon::SavableDataLoader;
using energon::TrainOptions;
using energon::UniqueFd;
using energon::testing::eventually;
using energon::testing::label;
using energon::testing::Labels;
using energon::testing::LoaderFixture;
using energon::testing::no_children;
using energon::testing::ProcessFixture;
using energon::testing::take;

TrainOptions calling(std::function<void(Sample&)> function) {
  TrainOptions options;
  options.batch_size = 2;
  options.task_encoder.encode_sample =
      energon::MapFunction([function = std::move(function)](Sample sample, CallContext&) {
        function(sample);
        return sample;
      });
  return options;
}

std::pair<UniqueFd, UniqueFd> new_pipe() {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line.substr(name_end + 1, 2) != " Z";
}

// Without zombies.
std::vector<int> children_of(pid_t pid) {
  std::vector<int> pids;
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  for (int child = 0; file >> child;) {
    if (is_alive(child)) {
      pids.push_back(child);
    }
  }
  return pids;
}

// The number of mappings of our shared memory in a process.
int shared_mappings(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:energon") != std::string::npos ? 1 : 0;
  }
  return count;
}

UniqueFd listening_socket(std::uint16_t& port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool is_bound = ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                        ::listen(socket.get(), 1) == 0;
  if (!is_bound) {
    return UniqueFd();
  }
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return socket;
}

}  // namespace

TEST_CASE_METHOD(ProcessFixture,
                 "a hundred loaders with hooks start under threads that hold a lock of the user",
                 "[loader][inherited][fork]") {
  static std::mutex mutex;  // functions in workers take the lock
  const LoaderFixture fixture(calling([](Sample&) { const std::lock_guard lock(mutex); }));
  const Labels expected = take(*fixture.loader(0), 1);
  std::atomic<int> running{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&running](const std::stop_token& stop) {
      ++running;
      while (!stop.stop_requested()) {
        const std::lock_guard lock(mutex);
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
  }
  REQUIRE(eventually([&] { return running == 3; }));
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    LoaderOptions options{.timeout = std::chrono::seconds(20),
                          .fork_hooks = {.before = [] { mutex.lock(); },
                                         .parent = [] { mutex.unlock(); },
                                         .child = [] { mutex.unlock(); }}};
    REQUIRE(take(*fixture.loader(1, options), 1) == expected);
  }
}

TEST_CASE_METHOD(ProcessFixture,
                 "functions that write to descriptor numbers of the trainer do no damage",
                 "[loader][inherited][fork]") {
  std::vector<std::pair<UniqueFd, UniqueFd>> pipes;
  std::vector<int> numbers;
  for (int i = 0; i < 40; ++i) {
    pipes.push_back(new_pipe());
    numbers.push_back(pipes.back().first.get());
    numbers.push_back(pipes.back().second.get());
  }
  const auto write_everywhere = [&numbers](Sample& sample) {
    std::int64_t refused = 0;
    std::array<char, 4096> garbage{};
    garbage.fill('x');
    for (const int fd : numbers) {
      refused += ::write(fd, garbage.data(), garbage.size()) < 0 && errno == EBADF ? 1 : 0;
      refused += ::read(fd, garbage.data(), garbage.size()) < 0 && errno == EBADF ? 1 : 0;
    }
    sample.set("refused", refused);
  };
  const LoaderFixture fixture(calling(write_everywhere));
  const LoaderFixture quiet(
      calling([](Sample& sample) { sample.set("refused", std::int64_t{160}); }));
  const Labels expected = take(*quiet.loader(2), 60);
  const auto loader = fixture.loader(2);
  pipes.erase(pipes.begin() + 20, pipes.end());  // in the trainer, these numbers are free again
  CHECK(take(*loader, 60) == expected);
  for (const auto& [reader, writer] : pipes) {
    CHECK_FALSE(energon::any_ready(std::array{reader.get()}));
  }
}

TEST_CASE_METHOD(ProcessFixture, "a port and a pipe closed by the trainer are free at once",
                 "[loader][inherited][fork]") {
  const LoaderFixture fixture(calling([](Sample&) {}));
  std::uint16_t port = 0;
  UniqueFd socket = listening_socket(port);
  REQUIRE(socket.valid());
  auto [reader, writer] = new_pipe();
  const auto loader = fixture.loader(2);
  const Labels first = take(*loader, 2);
  CHECK_FALSE(listening_socket(port).valid());  // while it is open
  socket.reset();
  writer.reset();
  CHECK(listening_socket(port).valid());
  char byte = 0;
  REQUIRE(energon::any_ready(std::array{reader.get()}));
  CHECK(::read(reader.get(), &byte, 1) == 0);
  CHECK(take(*loader, 1).size() == 1);  // the workers live
}

TEST_CASE_METHOD(ProcessFixture, "functions read files that the trainer has opened",
                 "[loader][inherited][fork]") {
  const energon::testing::TempDir folder;
  std::ofstream(folder.file("table")) << "0123456789";
  const UniqueFd table(::open(folder.file("table").c_str(), O_RDONLY | O_CLOEXEC));
  const LoaderFixture fixture(calling([&](Sample& sample) {
    std::array<char, 4> text{};
    const ssize_t count = ::pread(table.get(), text.data(), text.size(), 3);
    sample.set("text", std::string(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0));
  }));
  const auto batch = fixture.loader(1)->next();
  REQUIRE(batch);
  CHECK(batch->text_list("text") == std::vector<std::string_view>{"3456", "3456"});
}

TEST_CASE_METHOD(ProcessFixture, "when the trainer executes another program, all workers end",
                 "[loader][inherited][fork]") {
  const LoaderFixture fixture(calling([](Sample&) {}));
  // Orphans become our children, so that all are found.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  auto [reader, writer] = new_pipe();
  const pid_t trainer = energon::testing::start_child([&, report = writer.get()] {
    const auto first = fixture.loader(1);   // whose descriptors are foreign to the second,
    const auto second = fixture.loader(2);  // and these to the third
    const auto third = fixture.loader(1);
    for (const auto* loader : {&first, &second, &third}) {
      take(**loader, 2);
    }
    if (::write(report, "!", 1) == 1) {
      ::execl("/bin/sleep", "sleep", "60", nullptr);
    }
    return 1;
  });
  writer.reset();
  char byte = 0;
  REQUIRE(::read(reader.get(), &byte, 1) == 1);
  const auto only_the_trainer_is_left = [&] {
    return children_of(trainer).empty() && children_of(::getpid()) == std::vector{trainer};
  };
  CHECK(eventually(only_the_trainer_is_left, std::chrono::seconds(10)));
  CHECK(::kill(trainer, 0) == 0);
  ::kill(trainer, SIGKILL);
  CHECK(eventually([] { return no_children(true); }));
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_CASE_METHOD(ProcessFixture, "a newer loader does not keep the memory of a closed one",
                 "[loader][inherited][fork]") {
  const LoaderFixture fixture(calling([](Sample&) {}), energon::testing::kFx55, 20'000);
  auto first = fixture.loader(2);
  auto batch = first->next();
  REQUIRE(batch);
  const std::string before = label(*batch);
  const auto own = children_of(::getpid());
  const auto second = fixture.loader(2);
  take(*second, 2);
  pid_t server = 0;
  for (const int pid : children_of(::getpid())) {
    server = std::find(own.begin(), own.end(), pid) == own.end() ? pid : server;
  }
  REQUIRE(server != 0);
  CHECK(shared_mappings(server) == 0);
  const std::vector<int> workers = children_of(server);
  REQUIRE(workers.size() == 2);
  for (const int worker : workers) {
    CAPTURE(worker);
    CHECK(shared_mappings(worker) == 1);  // its own memory
  }
  // The trainer and a child that it forks itself read the batch as before.
  CHECK(shared_mappings(::getpid()) >= 4);
  CHECK(energon::testing::run_in_child([&] { return label(*batch) == before ? 0 : 1; }).exit_code ==
        0);
  first->close();
  CHECK(label(*batch) == before);
  const auto in_child = [&] {  // a loader of a child recognizes the memory that it inherited
    const auto third = fixture.loader(1);
    take(*third, 1);
    const std::vector<int> servers = children_of(::getpid());
    return servers.size() == 1 && shared_mappings(servers[0]) == 0 && label(*batch) == before ? 0
                                                                                              : 1;
  };
  CHECK(energon::testing::run_in_child(in_child).exit_code == 0);
  first.reset();
  batch.reset();
  CHECK(shared_mappings(::getpid()) == 2);
  CHECK(take(*second, 1).size() == 1);
}
