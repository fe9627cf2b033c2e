from .waiting import WaitingList

URGENCY = {"red": 0, "orange": 1, "yellow": 2, "green": 3, "blue": 4}


class Desk:
    """Takes patients in and calls them by urgency."""

    def __init__(self):
        self._waiting = WaitingList()
        self._called = []

    def arrive(self, patient, colour="green"):
        self._waiting.add(patient, URGENCY[colour])

    def reassess(self, patient, colour):
        self._waiting.change(patient, URGENCY[colour])

    def reassess_all(self, colours):
        """Several at once: a dict from patient to colour. All or nothing: unknown names or colours change nobody."""
        unknown = [patient for patient in colours if patient not in self._waiting]
        if unknown:
            raise KeyError(unknown[0])
        urgencies = {patient: URGENCY[colour] for patient, colour in colours.items()}
        for patient, urgency in urgencies.items():
            self._waiting.change(patient, urgency)

    def go_home(self, patient):
        self._waiting.leave(patient)

    def call(self):
        """The next patient, or None."""
        if not len(self._waiting):
            return None
        patient = self._waiting.next()
        self._called.append(patient)
        return patient

    def board(self):
        return self._waiting.names()
