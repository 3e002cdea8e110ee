#include "lathe/tools/cli/settings/command_line.h"

#include <doctest/doctest.h>

#include "lathe/tools/cli/revision.h"

using namespace lathe::cli;

namespace {

constexpr Command kSome[] = {
    {.name = "train", .help = "Train", .takes = kTrain, .run = nullptr},
    {.name = "prepare",
     .help = "Check",
     .takes = kDataPrepare,
     .words = "[OP...]",
     .max_words = 3,
     .run = nullptr},
    {.name = "data fetch",
     .help = "Fetch",
     .takes = kDataFetch,
     .words = "one data set",
     .min_words = 1,
     .max_words = 1,
     .run = nullptr},
    {.name = "launch",
     .help = "Launch",
     .takes = kLaunch,
     .words = "a program",
     .min_words = 1,
     .max_words = SIZE_MAX,
     .runs_program = true,
     .run = nullptr},
};

CommandLine parse(std::vector<std::string> arguments) {
  return parse_command_line(std::move(arguments), kSome,
                            [](const char*) -> const char* { return nullptr; });
}

}  // namespace

TEST_CASE("command line: --flag value and --flag=value, switches and their opposite") {
  const CommandLine a =
      parse({"train", "--lr", "0.5", "--batch-size=7", "--conv-exact", "--no-nesterov"});
  REQUIRE(a.command == &kSome[0]);
  const Settings& s = a.invocation.settings;
  CHECK(s.lr == 0.5);
  CHECK(s.batch_size == 7);
  CHECK(s.conv_exact);
  CHECK_FALSE(s.nesterov);
  CHECK_FALSE(parse({"train", "--conv-exact=false"}).invocation.settings.conv_exact);
  CHECK(parse({"train", "--epochs", "1", "--epochs", "2"}).invocation.settings.epochs ==
        2);  // the last one wins
}

TEST_CASE("command line: --recipe list prints a line for each recipe") {
  const CommandLine line = parse({"train", "--recipe", "list", "--epochs", "3"});
  CHECK(line.command == nullptr);
  CHECK(line.code == ExitCode::kDone);
  CHECK(line.text.find("cifar10-94 ") == 0);
}

TEST_CASE("command line: what follows a program is the program's") {
  const std::vector<std::string> words = {"prog", "-n", "3", "--help", "", "--", "x"};
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"-n", "2"}, {"-n=2"}, {"--ranks", "2"}, {"-n", "2", "--"}}) {
    std::vector<std::string> arguments = {"launch"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), words.begin(), words.end());
    const CommandLine line = parse(arguments);
    REQUIRE(line.command == &kSome[3]);
    CHECK(line.invocation.settings.ranks == 2);
    CHECK(line.invocation.words == words);
  }
  CHECK(parse({"launch", "--help", "prog"}).command == nullptr);
  CHECK_THROWS_WITH_AS(parse({"launch", "-n", "2"}), "expected a program", UsageError);
  CHECK_THROWS_AS(parse({"train", "-n", "2"}), UsageError);  // a letter of other commands
}

TEST_CASE("command line: a switch may have a value, true or false") {
  const auto nesterov = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), "train");
    return parse(std::move(flags)).invocation.settings.nesterov;
  };
  CHECK_FALSE(nesterov({"--nesterov=off"}));
  CHECK(nesterov({"--nesterov=1"}));
  CHECK(nesterov({"--no-nesterov=false"}));
  CHECK_FALSE(nesterov({"--no-nesterov=yes"}));
  CHECK(nesterov({"--no-nesterov", "--nesterov"}));  // the last one wins
  CHECK_FALSE(nesterov({"--nesterov=1", "--lr=1", "--no-nesterov"}));
  CHECK(nesterov({"--nesterov", "--no-nesterov", "--nesterov=true"}));
  for (const std::string value : {"7", "-9223372036854775808", "66666666666666666666", "TRUE"}) {
    for (const std::string flag : {"--nesterov", "--no-nesterov"}) {
      const std::string message = flag + ": expected true or false, got \"" + value + "\"";
      CHECK_THROWS_WITH_AS(nesterov({flag + "=" + value}), message.c_str(), UsageError);
    }
  }
}

TEST_CASE("command line: a switch whose key begins with no-") {
  const auto spared = [](const std::string& flag) {
    return parse({"train", flag}).invocation.settings.no_decay_norm;
  };
  CHECK(spared("--no-decay-norm"));
  CHECK_FALSE(spared("--no-decay-norm=off"));
  CHECK_FALSE(spared("--no-no-decay-norm"));
}

TEST_CASE("command line: an empty value is refused, and the next argument is not the value") {
  for (const std::string next : {"--dry-run", "sgd", "3", "--", ""}) {
    CAPTURE(next);
    const auto message_of = [&](std::vector<std::string> flags) -> std::string {
      flags.insert(flags.begin(), "train");
      try {
        parse(flags);
      } catch (const UsageError& e) {
        return e.what();
      }
      return "";
    };
    CHECK(message_of({"--run-dir=", next}) == "--run-dir: expected DIR, got \"\"");
    CHECK(message_of({"--lr=", next}) == "--lr: expected NUMBER, got \"\"");
    CHECK(message_of({"--epochs=", next}) == "--epochs: expected N, got \"\"");
    CHECK(message_of({"--optimizer=", next}).ends_with(", got \"\""));
    CHECK(message_of({"--augment=", next}) == "--augment: expected LIST, got \"\"");
    CHECK(message_of({"--config=", next}) == "--config: expected FILE, got \"\"");
    CHECK(message_of({"--json=", next}) == "--json: expected true or false, got \"\"");
    CHECK(message_of({"--no-json=", next}) == "--no-json: expected true or false, got \"\"");
    CHECK(message_of({"--run-dir", "", next}) == "--run-dir: expected DIR, got \"\"");
  }
  // Every flag that takes a value says what it expects.
  for (const Setting& setting : all_settings())
    CHECK_MESSAGE((setting.is_switch() || !setting.choices.empty() || !setting.unit.empty()),
                  setting.key);
}

TEST_CASE("command line: a value that begins with -- stands behind =, for a flag is meant else") {
  CHECK(parse({"train", "--run-dir=--json=on"}).invocation.settings.run_dir == "--json=on");
  CHECK(parse({"train", "--run-dir=--"}).invocation.settings.run_dir == "--");
  CHECK(parse({"train", "--run-dir", "-"}).invocation.settings.run_dir == "-");
  CHECK(parse({"train", "--run-dir", "-x=y"}).invocation.settings.run_dir == "-x=y");
  for (const std::string next :
       {"--dry-run", "--json=on", "--no-json", "--lr=1", "--unknown", "--"})
    CHECK_THROWS_WITH_AS(parse({"train", "--run-dir", next}),
                         ("--run-dir: expected DIR, got " + next +
                          "; a value that begins with -- is written --run-dir=" + next)
                             .c_str(),
                         UsageError);
  CHECK_THROWS_WITH_AS(parse({"train", "--lr"}), "--lr: expected NUMBER, got nothing", UsageError);
}

TEST_CASE("command line: what looks like a switch may be a word") {
  CHECK(parse({"prepare", "-", "[a,b]"}).invocation.words ==
        std::vector<std::string>{"-", "[a,b]"});
  CHECK(parse({"prepare", "--", "--json=on", "--"}).invocation.words ==
        std::vector<std::string>{"--json=on", "--"});
  CHECK_THROWS_WITH_AS(parse({"train", "--", "--json"}), "unexpected argument \"--json\"",
                       UsageError);
  const auto huge = [] { parse({"train", "--run-dir", "--", "--no-json=66666666666666666666"}); };
  CHECK_THROWS_AS(huge(), UsageError);
}

TEST_CASE("command line: words go to the commands that take them") {
  CHECK(parse({"prepare", "relu", "conv2d", "--seed", "3"}).invocation.words ==
        std::vector<std::string>{"relu", "conv2d"});
  CHECK(parse({"data", "fetch", "cifar10"}).command == &kSome[2]);
  CHECK_THROWS_WITH_AS(parse({"data", "fetch"}), "expected one data set", UsageError);
  CHECK_THROWS_WITH_AS(parse({"data", "fetch", "a", "b"}),
                       "unexpected argument \"b\"; expected one data set", UsageError);
  CHECK_THROWS_WITH_AS(parse({"data", "fetch", ""}), "expected one data set, got \"\"", UsageError);
  CHECK_THROWS_WITH_AS(parse({"train", "now"}), "unexpected argument \"now\"", UsageError);
}

TEST_CASE("command line: mistakes name the flag and the nearest one") {
  CHECK_THROWS_WITH_AS(parse({"train", "--batchsize", "3"}),
                       "--batchsize: unknown flag; did you mean --batch-size?", UsageError);
  CHECK_THROWS_WITH_AS(parse({"train", "--epoch=3"}),
                       "--epoch: unknown flag; did you mean --epochs?", UsageError);
  CHECK_THROWS_WITH_AS(parse({"train", "-x"}), "-x: unknown flag; lathe help train lists all",
                       UsageError);
  CHECK_THROWS_WITH_AS(parse({"train", "--lr", "-1"}), "--lr: expected 0 or more, got -1",
                       UsageError);
  CHECK_THROWS_WITH_AS(parse({"train", "--lr", "nan"}), "--lr: expected a finite number, got nan",
                       UsageError);
  CHECK_THROWS_AS(parse({"train", "--lr"}), UsageError);
  CHECK_THROWS_AS(parse({"train", "--conv-exact=perhaps"}), UsageError);
  CHECK_THROWS_WITH_AS(parse({"trian"}), "trian: unknown command; did you mean lathe train?",
                       UsageError);
  CHECK_THROWS_WITH_AS(parse({"data"}), "data: which data command? see lathe data --help",
                       UsageError);
  CHECK_THROWS_WITH_AS(parse({"data", "fetsh", "x"}),
                       "data fetsh: unknown command; did you mean lathe data fetch?", UsageError);
  CHECK(parse({}).code == ExitCode::kUsage);
  CHECK(parse({}).text.find("prepare") != std::string::npos);
}

TEST_CASE("command line: help and version") {
  CHECK(parse({"--version"}).text.starts_with("lathe "));
  CHECK(parse({"--version"}).text.find(revision()) != std::string::npos);
  for (const auto& arguments : {std::vector<std::string>{"--help"}, {"help"}, {"-h"}}) {
    CHECK(parse(arguments).text.find("prepare") != std::string::npos);
  }
  for (const auto& arguments : {std::vector<std::string>{"help", "train"}, {"train", "--help"}}) {
    const std::string text = parse(arguments).text;
    CHECK(text.find("--batch-size") != std::string::npos);
    CHECK(text.find("--[no-]nesterov") != std::string::npos);
  }
  CHECK(parse({"data", "--help"}).text.find("data fetch") != std::string::npos);
  CHECK(parse({"help", "data"}).text.find("train") == std::string::npos);
}
