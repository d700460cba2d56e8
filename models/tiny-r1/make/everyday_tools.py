# SPDX-License-Identifier: Apache-2.0
"""The everyday tools, and parameters of invented ones, with the words in which a request names them.

In a tool's requests {0} is its first parameter; a request without {1} leaves the second one out. `wanted` is
what the thinking says that the user wants. Phrases of a NamedParameter are about its value {v}."""
import collections

from values import (app_name, city, color, command, day, digit, dish, expression, file_path, integer,
                    integer_of_four_digits, integer_of_one_or_two_digits, integer_of_two_or_three_digits,
                    invented_name, language, number, person, phrase, query, room, time_of_day, word)

STRING, INTEGER, NUMBER, BOOLEAN, ENUM = "string", "integer", "number", "boolean", "enum"

EverydayTool = collections.namedtuple("EverydayTool", "names wanted descriptions parameters requests")
# values: a function that draws one, or the list of an enum.
Parameter = collections.namedtuple("Parameter", "names type values")
NamedParameter = collections.namedtuple("NamedParameter", "name type values phrases")

EVERYDAY_TOOLS = [
    EverydayTool(
        names=["get_weather", "weather", "get_current_weather", "weather_now", "fetch_weather"],
        wanted="weather",
        descriptions=[
            "Get the weather in a city.", "Current weather for a city.", "Returns the weather.",
            "Get the current weather in a given location", "Get weather of a location.",
            "Get the current weather",
        ],
        parameters=[
            Parameter(["city", "location", "place"], STRING, city),
            Parameter(["unit", "units"], ENUM, ["celsius", "fahrenheit"]),
        ],
        requests=[
            "What is the weather in {0}?", "What's the weather like in {0}?",
            "How is the weather in {0} in {1}?", "Weather in {0}, in {1}", "Tell me the weather in {0}.",
            "What is the weather in {0} in {1}?", "Is it cold in {0}?", "Will it rain in {0}?",
            "weather {0}", "How warm is it in {0}?", "How warm is it in {0} in {1}?",
            "What is the temperature in {0}?",
        ],
    ),
    EverydayTool(
        names=["get_time", "current_time", "get_local_time", "time_in", "clock"],
        wanted="time",
        descriptions=[
            "Get the time in a city.", "Current local time of a city.",
            "Get the current time in a given location",
        ],
        parameters=[Parameter(["city", "location", "place"], STRING, city)],
        requests=[
            "What time is it in {0}?", "What is the time in {0}?", "Tell me the time in {0}.",
            "time in {0}", "How late is it in {0}?", "Current time in {0}?",
        ],
    ),
    EverydayTool(
        names=["calculator", "calculate", "compute", "evaluate", "calc"],
        wanted="calculate",
        descriptions=[
            "Evaluate an expression.", "Calculate an arithmetic expression.",
            "Evaluates a mathematical expression", "Do arithmetic.",
        ],
        parameters=[Parameter(["expression", "expr", "formula"], STRING, expression)],
        requests=[
            "What is {0}?", "Calculate {0}", "Compute {0}.", "Use the calculator: {0}", "How much is {0}?",
            "Please calculate {0}.", "{0}", "{0} = ?",
        ],
    ),
    EverydayTool(
        names=["add", "add_numbers", "sum", "plus"],
        wanted="add",
        descriptions=["Add two numbers.", "Returns the sum of a and b."],
        parameters=[
            Parameter(["a", "x", "first"], INTEGER, integer),
            Parameter(["b", "y", "second"], INTEGER, integer),
        ],
        requests=[
            "What is {0} + {1}?", "Add {0} and {1}.", "{0} plus {1}", "What is the sum of {0} and {1}?",
            "How much is {0} plus {1}?", "{0} + {1}",
        ],
    ),
    EverydayTool(
        names=["multiply", "multiply_numbers", "product", "times"],
        wanted="multiply",
        descriptions=["Multiply two numbers.", "Returns the product of a and b."],
        parameters=[
            Parameter(["a", "x", "first"], INTEGER, integer),
            Parameter(["b", "y", "second"], INTEGER, integer),
        ],
        requests=[
            "What is {0} * {1}?", "Multiply {0} by {1}.", "{0} times {1}", "How much is {0} times {1}?",
            "{0} x {1}",
        ],
    ),
    EverydayTool(
        names=["set_timer", "start_timer", "timer", "create_timer"],
        wanted="timer",
        descriptions=["Set a timer.", "Start a timer for some minutes."],
        parameters=[Parameter(["minutes", "duration", "mins"], INTEGER, integer_of_one_or_two_digits)],
        requests=[
            "Set a timer for {0} minutes.", "Start a timer of {0} minutes", "Wake me in {0} minutes.",
            "timer {0} minutes", "Set a {0} minute timer.", "Please set a timer for {0} minutes.",
        ],
    ),
    EverydayTool(
        names=["set_alarm", "alarm", "create_alarm"],
        wanted="alarm",
        descriptions=["Set an alarm.", "Set an alarm at a time."],
        parameters=[Parameter(["time", "at"], STRING, time_of_day), Parameter(["day"], STRING, day)],
        requests=[
            "Set an alarm for {0}.", "Wake me at {0}.", "Wake me up at {0} on {1}.", "Alarm at {0} on {1}",
            "Set an alarm for {0} on {1}.",
        ],
    ),
    EverydayTool(
        names=["search", "web_search", "search_web", "lookup", "find_pages"],
        wanted="search",
        descriptions=[
            "Search the web.", "Find pages about something.", "Search the internet for a query",
            "Search for information.",
        ],
        parameters=[
            Parameter(["query", "q", "text"], STRING, query),
            Parameter(["limit", "max_results"], INTEGER, integer_of_one_or_two_digits),
        ],
        requests=[
            "Search for {0}.", "Search the web for {0}", "Look up {0}.", "Find pages about {0}",
            "search {0}", "Google {0}", "Find {0} on the web.", "Search for {0} with {1} results.",
            "Search the web for {0} and show {1} results",
        ],
    ),
    EverydayTool(
        names=["send_message", "send_text", "message", "text_person", "send_sms"],
        wanted="message",
        descriptions=[
            "Send a message to a person.", "Send a text message.", "Sends a message to somebody",
            "Send text to a contact.",
        ],
        parameters=[
            Parameter(["to", "recipient", "person"], STRING, person),
            Parameter(["text", "message", "body"], STRING, phrase),
        ],
        requests=[
            "Send a message to {0}: {1}", "Tell {0} {1}", "Text {0} that {1}", "Send {0} the message {1}",
            "Write to {0}: {1}", "Message {0} saying {1}", "Send {1} to {0}", "Let {0} know that {1}",
        ],
    ),
    EverydayTool(
        names=["send_email", "email", "write_email"],
        wanted="email",
        descriptions=["Send an email.", "Write an email to a person."],
        parameters=[
            Parameter(["to", "recipient"], STRING, person),
            Parameter(["subject", "title"], STRING, phrase),
        ],
        requests=[
            "Send an email to {0} with the subject {1}", "Email {0} about {1}",
            "Write an email to {0} about {1}.", "Mail {0}: {1}",
        ],
    ),
    EverydayTool(
        names=["call_person", "call", "phone", "make_call", "dial"],
        wanted="call",
        descriptions=["Call a person.", "Make a phone call."],
        parameters=[Parameter(["name", "person", "contact"], STRING, person)],
        requests=[
            "Call {0}.", "Please call {0}", "Phone {0}", "I want to talk to {0}.", "Make a call to {0}.",
        ],
    ),
    EverydayTool(
        names=["translate", "translate_text", "translator"],
        wanted="translate",
        descriptions=["Translate a text.", "Translate text into a language."],
        parameters=[
            Parameter(["text"], STRING, phrase),
            Parameter(["language", "target", "lang"], STRING, language),
        ],
        requests=[
            "Translate {0} to {1}", "Translate {0} into {1}.", "How do you say {0} in {1}?",
            "What is {0} in {1}?",
        ],
    ),
    EverydayTool(
        names=["play_music", "play_song", "play", "music"],
        wanted="play",
        descriptions=["Play a song.", "Play music."],
        parameters=[
            Parameter(["song", "title", "name"], STRING, query),
            Parameter(["volume"], INTEGER, integer_of_one_or_two_digits),
        ],
        requests=[
            "Play {0}.", "Play the song {0}", "I want to hear {0}.", "Play {0} at volume {1}",
            "Put on {0}", "Play {0} with volume {1}.",
        ],
    ),
    EverydayTool(
        names=["create_reminder", "remind", "set_reminder", "add_reminder"],
        wanted="reminder",
        descriptions=["Create a reminder.", "Remind the user of something."],
        parameters=[
            Parameter(["text", "task"], STRING, phrase), Parameter(["time", "at"], STRING, time_of_day),
        ],
        requests=[
            "Remind me at {1}: {0}", "Remind me: {0}", "Set a reminder for {1}: {0}",
            "Create a reminder: {0} at {1}", "Add a reminder: {0}",
        ],
    ),
    EverydayTool(
        names=["set_light", "light", "switch_light", "turn_light", "control_light"],
        wanted="light",
        descriptions=["Switch a light on or off.", "Control the light in a room."],
        parameters=[Parameter(["room"], STRING, room), Parameter(["state"], ENUM, ["on", "off"])],
        requests=[
            "Turn {1} the light in the {0}.", "Switch {1} the {0} light", "Light {1} in the {0}",
            "Turn the light {1} in the {0}.", "Please turn {1} the light in the {0}.",
        ],
    ),
    EverydayTool(
        names=["set_temperature", "heat", "set_heating", "thermostat"],
        wanted="temperature",
        descriptions=["Set the temperature.", "Set the heating of a room."],
        parameters=[
            Parameter(["degrees", "temperature", "value"], NUMBER, number),
            Parameter(["room"], STRING, room),
        ],
        requests=[
            "Set the temperature to {0} degrees.", "Set the {1} to {0} degrees",
            "Heat the {1} to {0} degrees.", "Make it {0} degrees in the {1}", "Set the heating to {0}.",
        ],
    ),
    EverydayTool(
        names=["get_stock_price", "stock_price", "get_price", "quote"],
        wanted="stock price",
        descriptions=["Get the price of a stock.", "Stock price of a company."],
        parameters=[Parameter(["company", "name", "stock"], STRING, invented_name)],
        requests=[
            "What is the stock price of {0}?", "How much is a share of {0}?", "Price of {0} stock",
            "Get the stock price of {0}.", "What does the {0} stock cost?",
        ],
    ),
    EverydayTool(
        names=["convert_currency", "exchange", "convert", "currency"],
        wanted="money",
        descriptions=["Convert an amount of money.", "Convert money into another currency."],
        parameters=[
            Parameter(["amount", "value"], NUMBER, number),
            Parameter(["from", "source"], ENUM, ["dollars", "euros", "pounds"]),
            Parameter(["to", "target"], ENUM, ["dollars", "euros", "pounds"]),
        ],
        requests=[
            "Convert {0} {1} to {2}.", "How much is {0} {1} in {2}?", "{0} {1} in {2}",
            "Change {0} {1} into {2}", "What are {0} {1} in {2}?",
        ],
    ),
    EverydayTool(
        names=["book_table", "reserve_table", "reserve"],
        wanted="table",
        descriptions=["Book a table.", "Reserve a table in a restaurant."],
        parameters=[
            Parameter(["people", "guests", "persons"], INTEGER, digit),
            Parameter(["time"], STRING, time_of_day), Parameter(["restaurant"], STRING, invented_name),
        ],
        requests=[
            "Book a table for {0} people at {1}.", "Reserve a table for {0} at {1}",
            "Book a table for {0} people at {1} in {2}.", "I need a table for {0} people at {2}.",
        ],
    ),
    EverydayTool(
        names=["get_news", "news", "headlines"],
        wanted="news",
        descriptions=["Get the news.", "News about a topic."],
        parameters=[Parameter(["topic", "subject"], STRING, query)],
        requests=[
            "What is the news about {0}?", "News about {0}", "Show me news on {0}.", "Any news about {0}?",
            "Get the news about {0}",
        ],
    ),
    EverydayTool(
        names=["find_route", "route", "navigate", "directions"],
        wanted="route",
        descriptions=["Find a route.", "Get the route between two places."],
        parameters=[
            Parameter(["start", "origin", "from"], STRING, city),
            Parameter(["end", "destination", "to"], STRING, city),
        ],
        requests=[
            "How do I get from {0} to {1}?", "Route from {0} to {1}", "Find the way from {0} to {1}.",
            "Drive from {0} to {1}", "Navigate from {0} to {1}.",
        ],
    ),
    EverydayTool(
        names=["book_flight", "find_flight", "flights", "search_flights"],
        wanted="flight",
        descriptions=["Find flights.", "Search a flight between cities."],
        parameters=[
            Parameter(["from", "origin"], STRING, city), Parameter(["to", "destination"], STRING, city),
            Parameter(["day", "date"], STRING, day),
        ],
        requests=[
            "Find a flight from {0} to {1}.", "I want to fly from {0} to {1} on {2}.",
            "Flights from {0} to {1} on {2}", "Book a flight from {0} to {1}",
        ],
    ),
    EverydayTool(
        names=["roll_dice", "dice", "throw_dice"],
        wanted="dice",
        descriptions=["Roll dice.", "Roll dice with some sides."],
        parameters=[
            Parameter(["count", "dice"], INTEGER, digit),
            Parameter(["sides"], INTEGER, integer_of_one_or_two_digits),
        ],
        requests=[
            "Roll {0} dice.", "Roll {0} dice with {1} sides", "Throw {0} dice",
            "Throw {0} dice with {1} sides.",
        ],
    ),
    EverydayTool(
        names=["add_to_list", "add_item", "shopping_list", "add_shopping"],
        wanted="shopping list",
        descriptions=["Add an item to the shopping list.", "Add to a list."],
        parameters=[
            Parameter(["item", "name"], STRING, word),
            Parameter(["count", "quantity", "amount"], INTEGER, integer_of_one_or_two_digits),
        ],
        requests=[
            "Add {0} to the shopping list.", "Put {0} on my list", "Add {1} {0} to the list",
            "I need to buy {0}.", "Put {1} {0} on the shopping list.",
        ],
    ),
    EverydayTool(
        names=["get_definition", "define", "dictionary", "lookup_word"],
        wanted="word",
        descriptions=["Look up a word in a dictionary.", "Define a word."],
        parameters=[Parameter(["word", "term"], STRING, word)],
        requests=[
            "What does {0} mean?", "Define {0}.", "Look up the word {0}", "What is the meaning of {0}?",
        ],
    ),
    EverydayTool(
        names=["read_file", "cat_file", "open_file", "view_file"],
        wanted="read file",
        descriptions=["Read a file.", "Returns the content of a file.", "Read the text of a file"],
        parameters=[Parameter(["path", "file", "filename"], STRING, file_path)],
        requests=[
            "Read {0}.", "Show me the file {0}", "What is in {0}?", "Open the file {0}",
            "Read the file {0}", "cat {0}",
        ],
    ),
    EverydayTool(
        names=["list_files", "ls", "list_directory", "dir"],
        wanted="list files",
        descriptions=["List the files of a folder.", "List a directory.", "Show the files in a folder"],
        parameters=[Parameter(["path", "folder", "directory"], STRING, word)],
        requests=[
            "List the files in {0}", "Which files are in the folder {0}?", "ls {0}",
            "Show the files of {0}.", "What is in the folder {0}?",
        ],
    ),
    EverydayTool(
        names=["run_command", "bash", "shell", "execute"],
        wanted="run",
        descriptions=["Run a command.", "Run a shell command.", "Execute a command in a shell"],
        parameters=[Parameter(["command", "cmd"], STRING, command)],
        requests=["Run {0}", "Execute {0}", "Run the command {0}", "Please run {0}"],
    ),
    EverydayTool(
        names=["get_balance", "account_balance", "balance"],
        wanted="balance",
        descriptions=["Get the balance of an account.", "Balance of a bank account."],
        parameters=[Parameter(["account", "owner", "name"], STRING, person)],
        requests=[
            "What is the balance of {0}?", "How much money does {0} have?", "Balance of {0}",
            "Show the account balance of {0}.",
        ],
    ),
    EverydayTool(
        names=["track_package", "track_order", "package_status", "track"],
        wanted="package",
        descriptions=["Track a package.", "Where a package is.", "Get the status of a package"],
        parameters=[Parameter(["number", "id", "package"], STRING, integer_of_four_digits)],
        requests=[
            "Where is my package {0}?", "Track package {0}", "Track the package {0}.",
            "Where is the package {0}?",
        ],
    ),
    EverydayTool(
        names=["create_event", "add_event", "calendar", "new_event"],
        wanted="calendar",
        descriptions=[
            "Create an event in the calendar.", "Add an event to the calendar.",
            "Put an event into the calendar",
        ],
        parameters=[
            Parameter(["title", "name"], STRING, phrase), Parameter(["day", "date"], STRING, day),
            Parameter(["time", "at"], STRING, time_of_day),
        ],
        requests=[
            "Create an event on {1}: {0}", "Add to my calendar on {1} at {2}: {0}",
            "Put {0} in my calendar for {1}.", "New event on {1} at {2}: {0}",
        ],
    ),
    EverydayTool(
        names=["book_hotel", "find_hotel", "hotels", "reserve_room"],
        wanted="hotel",
        descriptions=["Book a hotel.", "Find a hotel in a city.", "Find hotels"],
        parameters=[
            Parameter(["city", "place", "location"], STRING, city), Parameter(["nights"], INTEGER, digit),
        ],
        requests=[
            "Book a hotel in {0}.", "Find a hotel in {0}", "I need a hotel in {0} for {1} nights.",
            "Book a hotel in {0} for {1} nights", "hotel in {0}",
        ],
    ),
    EverydayTool(
        names=["find_restaurant", "restaurants", "search_restaurant"],
        wanted="restaurant",
        descriptions=["Find a restaurant in a city.", "Find restaurants."],
        parameters=[Parameter(["city", "place", "location"], STRING, city)],
        requests=[
            "Find a restaurant in {0}.", "Where can I eat in {0}?", "I want to eat in {0}",
            "Show me restaurants in {0}.",
        ],
    ),
    EverydayTool(
        names=["lock_door", "set_lock", "door_lock"],
        wanted="lock door",
        descriptions=["Lock or unlock a door.", "Control the lock of a door."],
        parameters=[
            Parameter(["door", "room"], STRING, room),
            Parameter(["action", "state"], ENUM, ["lock", "unlock"]),
        ],
        requests=["Please {1} the {0} door.", "{1} the door of the {0}", "I want to {1} the {0} door"],
    ),
    EverydayTool(
        names=["convert_units", "units", "unit_converter"],
        wanted="convert",
        descriptions=["Convert units.", "Convert a value into another unit."],
        parameters=[
            Parameter(["value", "amount"], NUMBER, number),
            Parameter(["from", "source"], ENUM, ["km", "miles", "feet"]),
            Parameter(["to", "target"], ENUM, ["km", "miles", "feet"]),
        ],
        requests=[
            "Convert {0} {1} to {2}.", "How many {2} are {0} {1}?", "{0} {1} in {2}",
            "What are {0} {1} in {2}?",
        ],
    ),
    EverydayTool(
        names=["random_number", "random", "pick_number"],
        wanted="random number",
        descriptions=["Get a random number.", "Draw a random number."],
        parameters=[
            Parameter(["min", "low"], INTEGER, integer_of_one_or_two_digits),
            Parameter(["max", "high"], INTEGER, integer_of_two_or_three_digits),
        ],
        requests=[
            "Give me a random number from {0} to {1}.", "Random number between {0} and {1}",
            "Draw a number between {0} and {1}.",
        ],
    ),
    EverydayTool(
        names=["open_app", "start_app", "launch", "launch_app"],
        wanted="open app",
        descriptions=["Open an app.", "Start an app on the phone."],
        parameters=[Parameter(["app", "name"], STRING, app_name)],
        requests=["Open {0}.", "Start the app {0}", "Launch {0}", "Open the app {0}."],
    ),
    EverydayTool(
        names=["get_distance", "distance", "how_far"],
        wanted="distance",
        descriptions=["Get the distance between two cities.", "Distance between two places."],
        parameters=[
            Parameter(["start", "from", "origin"], STRING, city),
            Parameter(["end", "to", "destination"], STRING, city),
        ],
        requests=[
            "How far is it from {0} to {1}?", "What is the distance between {0} and {1}?",
            "Distance from {0} to {1}",
        ],
    ),
    EverydayTool(
        names=["get_user", "find_user", "user_info", "lookup_user"],
        wanted="user",
        descriptions=["Get a user.", "Look up a user by name.", "Information about a user"],
        parameters=[Parameter(["name", "user", "username"], STRING, person)],
        requests=[
            "Who is the user {0}?", "Look up the user {0}", "Show me the user {0}.", "Find the user {0}",
        ],
    ),
    EverydayTool(
        names=["order_food", "order_pizza", "food_order"],
        wanted="order food",
        descriptions=["Order food.", "Order something to eat."],
        parameters=[
            Parameter(["food", "item", "dish"], STRING, dish),
            Parameter(["count", "quantity"], INTEGER, digit),
        ],
        requests=["Order {1} {0}", "I want to order {0}.", "Order {0} for me", "Please order {1} {0}."],
    ),
]

NAMED_PARAMETERS = [
    NamedParameter("city", STRING, city, [" in {v}", " for {v}"]),
    NamedParameter("place", STRING, city, [" in {v}", " at {v}"]),
    NamedParameter("name", STRING, person, [" named {v}", " called {v}", " for {v}"]),
    NamedParameter("person", STRING, person, [" for {v}", " with {v}"]),
    NamedParameter("to", STRING, person, [" to {v}", " for {v}"]),
    NamedParameter("owner", STRING, person, [" of {v}", " owned by {v}"]),
    NamedParameter("user", STRING, person, [" for the user {v}", " for {v}"]),
    NamedParameter("text", STRING, phrase, [" saying {v}", " with the text {v}", " that says {v}"]),
    NamedParameter("title", STRING, phrase, [" titled {v}", " with the title {v}"]),
    NamedParameter("topic", STRING, query, [" about {v}", " on {v}"]),
    NamedParameter("day", STRING, day, [" on {v}", " for {v}"]),
    NamedParameter("time", STRING, time_of_day, [" at {v}", " for {v}"]),
    NamedParameter("color", STRING, color, [" in {v}", " in the color {v}"]),
    NamedParameter("room", STRING, room, [" in the {v}", " for the {v}"]),
    NamedParameter("language", STRING, language, [" in {v}"]),
    NamedParameter("item", STRING, word, [" with a {v}", " for the {v}"]),
    NamedParameter("material", STRING, word, [" made of {v}", " from {v}"]),
    NamedParameter("minutes", INTEGER, integer_of_one_or_two_digits, [" for {v} minutes", " in {v} minutes"]),
    NamedParameter("hours", INTEGER, integer_of_one_or_two_digits, [" for {v} hours"]),
    NamedParameter("days", INTEGER, integer_of_one_or_two_digits, [" for {v} days"]),
    NamedParameter("count", INTEGER, integer, [" {v} times", ", {v} of them"]),
    NamedParameter("level", INTEGER, integer_of_one_or_two_digits, [" at level {v}", " to level {v}"]),
    NamedParameter("percent", INTEGER, integer_of_one_or_two_digits, [" to {v} percent", " by {v} percent"]),
    NamedParameter("number", INTEGER, integer, [" number {v}", " with the number {v}"]),
    NamedParameter("price", NUMBER, number, [" for {v} dollars", " at the price {v}"]),
    NamedParameter("weight", NUMBER, number, [" of weight {v}", " with weight {v}"]),
    NamedParameter("amount", NUMBER, number, [" with the amount {v}", ", amount {v}"]),
    NamedParameter("urgent", BOOLEAN, None,
                   [[", urgent", ", it is urgent"], [", not urgent", ", it is not urgent"]]),
    NamedParameter("public", BOOLEAN, None,
                   [[", public", " and make it public"], [", not public", " and do not make it public"]]),
    NamedParameter("loud", BOOLEAN, None, [[", loud", " and be loud"], [", not loud"]]),
]
